"""Every engine at one token gives what the oracle gives."""

from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.figures import note, times
from tests.union.engines import ENGINES, Engine
from tests.union.machine import UnionMachine, counted
from tests.union.telling import TRIED, fitting, read, told, written
from tests.union.wanting import left, terms

LONG = times(12)


@pytest.fixture(scope="module")
def engines(storage) -> Iterator[dict[str, Engine]]:
    made = {name: kind(storage.client) for name, kind in ENGINES.items()}
    yield made
    for engine in made.values():
        engine.close()


@pytest.mark.parametrize("traits", TRIED, ids=str)
def test_every_engine_gives_the_rows_of_a_token_now_and_later(storage, engines, traits):
    story = told(storage, traits)
    token, position = story.table.view().token(), story.now()
    name, expected = str(story.table.path), story.expected(position)

    first = {each: read(engines[each], name, token) for each in engines}
    story.add_column("later", "BIGINT")
    story.write(fitting(story, written(range(20, 70), n=3)))
    later = {each: read(engines[each], name, token) for each in engines}

    assert first == dict.fromkeys(engines, expected)
    assert later == dict.fromkeys(engines, expected)


@pytest.fixture(scope="module", params=TRIED, ids=str)
def story_of_a_kind(storage, request):
    return told(storage, request.param)


def test_every_engine_filters_as_the_oracle_does(story_of_a_kind, engines):
    story = story_of_a_kind
    token, name = story.table.view().token(), str(story.table.path)
    everything, names = story.expected(), story.table.schema.names
    texts = [each for each in names if each in ("texture", "day")]
    numbers = [each for each in names if each not in texts]

    @settings(max_examples=6, phases=[Phase.explicit, Phase.generate])
    @given(
        where=st.lists(terms(numbers, texts), max_size=2),
        columns=st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True),
    )
    def check(where, columns):
        expected = left(everything, where, columns)
        found = {
            each: counted(engine.rows(name, token, columns=columns, where=where))
            for each, engine in engines.items()
        }
        assert found == dict.fromkeys(engines, expected)

    check()


class EngineMachine(UnionMachine):
    """Read with every engine in between."""

    engines: dict[str, Engine]

    @rule()
    def every_engine_gives_the_same(self) -> None:
        token, name = self.table.view().token(), str(self.table.path)
        expected = self.story.expected()
        found = {each: read(engine, name, token) for each, engine in self.engines.items()}
        assert found == dict.fromkeys(self.engines, expected)


def test_every_engine_gives_what_was_written_whatever_happens(storage, engines):
    machine = type("Machine", (EngineMachine,), {"storage": storage, "engines": engines})
    short = settings(
        max_examples=4, stateful_step_count=12, phases=[Phase.explicit, Phase.generate]
    )
    run_state_machine_as_test(machine, settings=short)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_every_engine_gives_what_was_written_whatever_happens_for_long(storage, engines):
    machine = type("Machine", (EngineMachine,), {"storage": storage, "engines": engines})
    run_state_machine_as_test(machine, settings=settings(max_examples=LONG, stateful_step_count=40))
    note("union", stories=LONG)
