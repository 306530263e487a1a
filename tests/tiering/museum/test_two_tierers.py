"""Two tierers with one table: the one whose turn is over changes nothing any more."""

import pytest

from headwater.errors import TieringFencedError
from headwater.tiering.progress import RoundStep
from tests.tiering.world import KilledError, killing, rows

EARLY = [
    RoundStep.HEAD,
    RoundStep.LOGS,
    RoundStep.PLAN,
    RoundStep.WRITE,
    RoundStep.PREPARE,
    RoundStep.COMMIT,
]


@pytest.mark.parametrize("step", EARLY)
async def test_01_one_who_is_paused_before_the_commit_fails_when_another_has_finished(world, step):
    table = await world.table()
    await table.append(rows(*range(20)))
    work, pause = await world.paused(table, 1, step)
    await world.tier(table, 2)

    pause.let_go()
    with pytest.raises(TieringFencedError):
        await work

    head = await world.check(table)
    assert head.boundary.epoch.turn == 2


async def test_01_one_who_is_paused_fails_as_soon_as_another_has_claimed_the_table(world):
    table = await world.table()
    await table.append(rows(*range(20)))
    old, old_pause = await world.paused(table, 1, RoundStep.COMMIT)
    new, new_pause = await world.paused(table, 2, RoundStep.WRITE)

    old_pause.let_go()
    with pytest.raises(TieringFencedError):
        await old
    new_pause.let_go()
    await new

    await world.check(table)


async def test_01_one_who_has_claimed_the_table_and_hangs_fails_when_another_claims_it(world):
    table = await world.table()
    await table.append(rows(*range(20)))
    old, old_pause = await world.paused(table, 2, RoundStep.COMMIT, unsettled=1)
    new, new_pause = await world.paused(table, 3, RoundStep.WRITE, unsettled=2)

    old_pause.let_go()
    with pytest.raises(TieringFencedError):
        await old
    new_pause.let_go()
    await new

    await world.check(table)


async def test_01_one_whose_turn_is_over_does_not_report_what_others_committed(world, hw):
    table = await world.table()
    await table.append(rows(1))
    with pytest.raises(KilledError):
        await world.tier(table, 5, watch=killing(RoundStep.REPORT))

    with pytest.raises(TieringFencedError):
        await world.tier(table, 4)

    assert world.head(table) is not None
    assert await hw.lake.snapshot(table.path) is None


async def test_01_two_of_the_same_turn_hold_every_row_once_all_the_same(world):
    table = await world.table()
    await table.append(rows(*range(20)))
    work, pause = await world.paused(table, 1, RoundStep.COMMIT)
    await world.tier(table, 1)
    await table.append(rows(*range(20, 30)))

    pause.let_go()
    report = await work

    assert sum(world.lake_rows(table).values()) == 30
    assert report.row_count == 10
    await world.check(table)


async def test_10_no_file_is_in_the_lake_twice_when_an_outcome_was_unknown(world):
    table = await world.table()
    await table.append(rows(*range(20)))
    work, pause = await world.paused(table, 1, RoundStep.COMMIT)
    await world.tier(table, 1)

    pause.let_go()
    await work
    head = await world.check(table)

    paths = world.files(table, head)
    assert len(paths) == len(set(paths)) == head.file_count


async def test_11_the_ends_only_ever_grow_whoever_comes_last(world):
    table = await world.table(buckets=1)
    await table.append(rows(1))
    old, pause = await world.paused(table, 1, RoundStep.COMMIT)
    for turn in (2, 3):
        await table.append(rows(turn))
        await world.tier(table, turn)

    pause.let_go()
    with pytest.raises(TieringFencedError):
        await old

    await world.check(table)
    ends = [each.boundary.end(bucket) for each, bucket in world.history(table)]
    assert ends == sorted(ends)


async def test_12_late_rows_of_an_older_epoch_do_not_come_back(world):
    table = await world.keyed()
    await table.upsert(rows(1, 2, text="old"))
    old, pause = await world.paused(table, 1, RoundStep.COMMIT)
    await table.upsert(rows(1, text="new"))
    await table.delete([{"id": 2}])
    await world.tier(table, 2)

    pause.let_go()
    with pytest.raises(TieringFencedError):
        await old

    await world.check(table)
    assert list(world.lake_rows(table)) == [(("id", 1), ("text", "new1"))]
