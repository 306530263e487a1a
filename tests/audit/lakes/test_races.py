"""An audit beside tiering, compaction, expiry and retention gives no false alarm."""

import asyncio
from collections.abc import Iterator

import pytest

from headwater.lake.spi import Retention
from headwater.tiering.target import report_snapshot
from headwater.tiering.task import LocalRunner
from headwater.tiering.upkeep import compact
from tests import figures
from tests.audit.lakes.auditing import audited
from tests.union.storage import Storage
from tests.union.story import Story, Traits
from tests.union.telling import KINDS, fitting, written

ROUNDS = figures.times(10)
UPKEEP_EVERY = 3


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> Iterator[Storage]:
    opened = Storage.open(tmp_path_factory.mktemp("raced") / "data")
    yield opened
    opened.close()


class Life:
    """Write to a table, tier it, and keep its lake and its log small."""

    def __init__(self, story: Story) -> None:
        self.story, self.storage = story, story.storage
        self.table = story.table._table

    async def live(self, world, rounds: int) -> None:
        for turn in range(1, rounds + 1):
            rows = fitting(self.story, written(range(turn * 3, turn * 3 + 12), n=turn))
            await (self.table.upsert if self.table.info.is_keyed else self.table.append)(rows)
            await world.tier(self.table, turn, storage=self.storage.storage_id)
            self.storage.clock.ms += 10
            if turn % UPKEEP_EVERY == 0:
                await self.keep(world, turn)

    async def keep(self, world, turn: int) -> None:
        target, head = self.story.target(), self.story.head()
        made, _ = await compact(target, head, runner=LocalRunner(world.hw))
        turned = world.turn(self.table, turn, storage=self.storage.storage_id)
        await report_snapshot(world.hw, turned.assignment, made)
        keeper = target.lake.keeper(target.spec)
        keeper.expire(Retention(snapshots_min=1, age_ms=0), now_ms=made.committed_ms + 1000)
        await self.storage.server.upkeep.save_states()
        await self.storage._cut(self.table.info.table_id, None, checked=True)


def audited_beside(story: Story, *, rounds: int) -> list:
    """Return what audits found one after the other, while a table lives."""
    life = Life(story)

    async def both(world):
        living = asyncio.create_task(life.live(world, rounds))
        found = []
        while not living.done():
            found.append((await audited(life.table, deep=len(found) % 2 == 0)).findings)
        await living
        found.append((await audited(life.table, deep=True)).findings)
        return found

    return story.run(both)


@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
def test_an_audit_beside_a_life_finds_nothing(storage, is_keyed):
    story = Story(storage, Traits(format="paimon", is_keyed=is_keyed))

    found = audited_beside(story, rounds=6)

    assert [each for each in found if each] == []
    assert len(found) > 2


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("traits", KINDS, ids=str)
def test_audits_beside_a_long_life_find_nothing(storage, traits):
    story = Story(storage, traits)

    found = audited_beside(story, rounds=ROUNDS)

    figures.note("audits of lakes beside tiering", rounds=ROUNDS, images=len(found))
    assert [each for each in found if each] == []
