"""Whatever happens to a table by chance, its audit finds nothing wrong."""

from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from tests import figures
from tests.audit.lakes.auditing import audited
from tests.tiering.test_stories import Story as TieringStory
from tests.union.machine import UnionMachine
from tests.union.storage import Storage

EXAMPLES = figures.times(12)
SEEDS = figures.times(4)
STEPS = 40


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> Iterator[Storage]:
    opened = Storage.open(tmp_path_factory.mktemp("chance") / "data")
    yield opened
    opened.close()


class AuditMachine(UnionMachine):
    """Audit after every step instead of reading the rows."""

    audits = 0

    @invariant()
    def everything_is_there_once(self) -> None:
        if hasattr(self, "story"):
            type(self).audits += 1
            table, deep = self.table._table, self.audits % 2 == 0
            found = self.story.run(lambda _world: audited(table, deep=deep))
            assert found.errors == []
            # What is only worth a look comes from partitions that were dropped.
            assert self.story.has_dropped or not found.findings

    @invariant()
    def tokens_give_what_they_gave(self) -> None:
        """Leave tokens to others."""


def test_no_audit_finds_anything_whatever_happens(storage):
    short = settings(
        max_examples=2, stateful_step_count=12, phases=[Phase.explicit, Phase.generate]
    )
    run_state_machine_as_test(_on(storage), settings=short)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_no_audit_finds_anything_whatever_happens_for_long(storage):
    machine = _on(storage)

    run_state_machine_as_test(
        machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=40)
    )

    figures.note("audits of lakes by chance", rounds=EXAMPLES, images=machine.audits)


def _on(storage: Storage) -> type[AuditMachine]:
    return type("Machine", (AuditMachine,), {"storage": storage})


class AuditedStory(TieringStory):
    """Let tierers die and sleep at any step, and audit what they leave each time."""

    async def check(self) -> None:
        assert (await audited(self.table, deep=True)).errors == []


@pytest.mark.parametrize("lake_format", ["plain"])
async def test_tierers_that_die_and_sleep_leave_nothing_to_find(world):
    table = await world.keyed()

    await AuditedStory(world, table, 8).tell(12)

    assert (await audited(table, deep=True)).findings == ()


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_tierers_that_die_and_sleep_leave_nothing_to_find_for_long(world):
    for seed in range(SEEDS):
        table = await world.keyed(f"t{seed}")
        await AuditedStory(world, table, seed).tell(STEPS)
        figures.note("audits of lakes after crashes", seeds=1, rounds=STEPS)
