"""Long stories by chance: writers, tierers that die or sleep at any step, and upkeep in between."""

import asyncio
import random
from contextlib import suppress

import pytest

from headwater.errors import ConflictError
from headwater.lake.lakes import lake_spec
from headwater.tiering.progress import LakeTarget, RoundStep
from headwater.tiering.task import LocalRunner
from headwater.tiering.upkeep import compact
from tests.figures import times
from tests.tiering.world import KilledError, Pause, killing, rows

STEPS = list(RoundStep)


class Story:
    """Take steps by chance; turns only grow, as a server hands them out."""

    def __init__(self, world, table, seed):
        self.world, self.table = world, table
        self.chance = random.Random(seed)
        self.turn = 0
        self.asleep = []

    def next_turn(self):
        self.turn += self.chance.choice([1, 1, 1, 3])
        return self.turn

    async def write(self):
        ids = self.chance.sample(range(60), self.chance.randint(1, 30))
        await self.table.upsert(rows(*ids, text=f"{self.chance.random():.6f}-"))

    async def delete(self):
        ids = self.chance.sample(range(60), self.chance.randint(1, 10))
        await self.table.delete([{"id": number} for number in ids])

    async def tier(self):
        await self.world.tier(self.table, self.next_turn())

    async def die(self):
        with suppress(KilledError):
            watch = killing(self.chance.choice(STEPS))
            await self.world.tier(self.table, self.next_turn(), watch=watch)

    async def fall_asleep(self):
        pause = Pause(self.chance.choice(STEPS))
        work = asyncio.create_task(self.world.tier(self.table, self.next_turn(), watch=pause))
        await pause.reached_or_done(work)
        self.asleep.append((work, pause))

    async def wake_up(self):
        while self.asleep:
            work, pause = self.asleep.pop()
            pause.let_go()
            # Others went on meanwhile, or not; both is fine, as long as the lake is right.
            with suppress(ConflictError):
                await work

    async def compact(self):
        info = self.table.info
        if self.turn and self.world.has_lake_table(self.table):
            target = LakeTarget(info, self.world.lakes.of(info), lake_spec(info))
            head = self.world.head(self.table)
            if head is not None and head.boundary is not None:
                await compact(target, head, runner=LocalRunner(self.world.hw))

    async def check(self):
        has_rows = self.turn and self.world.has_lake_table(self.table)
        if has_rows and self.world.head(self.table) is not None:
            await self.world.check(self.table)

    async def tell(self, count):
        steps = [self.write, self.write, self.delete, self.tier, self.die]
        steps += [self.fall_asleep, self.wake_up, self.compact]
        for _ in range(count):
            await self.chance.choice(steps)()
            await self.check()
        await self.wake_up()
        await self.tier()
        await self.check()


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_happens_the_lake_holds_what_lies_below_its_boundary(world, seed):
    table = await world.keyed(buckets=2)

    await Story(world, table, seed).tell(15)

    assert world.lake_rows(table) == await world.now(table)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 100 + times(12)))
async def test_whatever_happens_for_long_the_lake_holds_what_lies_below_its_boundary(world, seed):
    table = await world.keyed(buckets=2)

    await Story(world, table, seed).tell(40)

    assert world.lake_rows(table) == await world.now(table)
