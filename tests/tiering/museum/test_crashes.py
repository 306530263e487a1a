"""A tierer that dies at any step: the next one goes on, and every row is there once."""

import pytest

from headwater.tiering.progress import RoundStep
from tests.tiering.world import KilledError, killing, rows


async def test_02_a_snapshot_that_was_not_reported_is_adopted_and_not_made_again(world, hw):
    table = await world.table(buckets=1)
    await table.append(rows(*range(5)))
    with pytest.raises(KilledError):
        await world.tier(table, 1, watch=killing(RoundStep.REPORT))
    assert await hw.lake.snapshot(table.path) is None

    report = await world.tier(table, 2)

    known = await hw.lake.snapshot(table.path)
    assert report.adopted
    assert report.tiered == {}
    assert known.snapshot_id == (await world.check(table)).snapshot_id
    assert sum(known.ends.values()) == 5


async def test_03_of_two_snapshots_that_were_not_reported_the_newest_counts(world, hw):
    table = await world.table(buckets=1)
    for number in (1, 2, 3):
        await table.append(rows(number))
        with pytest.raises(KilledError):
            await world.tier(table, 1, watch=killing(RoundStep.REPORT))

    await world.tier(table, 2)

    head = await world.check(table)
    known = await hw.lake.snapshot(table.path)
    assert known.snapshot_id == head.snapshot_id
    assert sum(known.ends.values()) == 3


@pytest.mark.parametrize("step", [step for step in RoundStep if step is not RoundStep.ADOPT])
async def test_18_a_failure_at_any_step_leaves_nothing_half_done(world, step):
    table = await world.table()
    await table.append(rows(*range(10)))
    await world.tier(table, 1)
    await table.append(rows(*range(10, 20)))
    with pytest.raises(KilledError):
        await world.tier(table, 3, watch=killing(step))
    await world.check(table)
    assert world.stray_files(table) == set()

    await world.tier(table, 5)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 20


async def test_18_a_failure_while_adopting_is_made_up_for(world, hw):
    table = await world.table(buckets=1)
    await table.append(rows(1))
    with pytest.raises(KilledError):
        await world.tier(table, 1, watch=killing(RoundStep.REPORT))
    with pytest.raises(KilledError):
        await world.tier(table, 2, watch=killing(RoundStep.ADOPT))

    await world.tier(table, 3)

    known = await hw.lake.snapshot(table.path)
    assert known.snapshot_id == (await world.check(table)).snapshot_id
