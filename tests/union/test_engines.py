"""Every engine at one token gives what the oracle gives."""

from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.union.engines import ENGINES, Engine
from tests.union.machine import UnionMachine, counted
from tests.union.story import Story, Traits
from tests.union.wanting import left, terms

KINDS = [
    Traits(format=each, is_keyed=is_keyed, is_partitioned=is_partitioned)
    for each in ("iceberg", "paimon")
    for is_keyed in (False, True)
    for is_partitioned in (False, True)
]


@pytest.fixture(scope="module")
def engines(storage) -> Iterator[dict[str, Engine]]:
    made = {name: kind(storage.client) for name, kind in ENGINES.items()}
    yield made
    for engine in made.values():
        engine.close()


def written(numbers, *, days=("mon", "tue"), n=None):
    return [
        {
            "id": each,
            "n": each % 5 if n is None else n,
            "text": "abz"[each % 3],
            "day": days[each % 2],
        }
        for each in numbers
    ]


def fitting(story, rows):
    names = story.table.schema.names
    return [{name: row.get(name) for name in names if name in row} for row in rows]


def told(storage, traits) -> Story:
    """Return a table with rows in the lake, changed in the lake, and in the log."""
    story = Story(storage, traits)
    story.write(fitting(story, written(range(40))))
    story.tier()
    story.add_column("late", "BIGINT")
    story.write(fitting(story, written(range(30, 50), n=7)))
    story.tier()
    story.rename_column("text", "texture")
    late = [
        {**row, "late": row["id"], "texture": row["text"]} for row in written(range(45, 60), n=1)
    ]
    story.write(fitting(story, late))
    if traits.is_keyed:
        keys = story.table.info.schema.primary_key
        gone = written([0, 5, 33, 46])
        story.delete([{key: row[key] for key in keys} for row in gone])
    story.cut()
    return story


@pytest.mark.parametrize("traits", KINDS, ids=str)
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


def read(engine, name, token):
    return counted(engine.rows(name, token, columns=None, where=[]))


@pytest.fixture(scope="module", params=KINDS, ids=str)
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
    run_state_machine_as_test(machine, settings=settings(max_examples=100, stateful_step_count=40))
