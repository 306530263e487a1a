"""Rounds on a real storage, into every lake format."""

import pytest

from headwater.errors import LakeUnreachableError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.tiering.plan import Limits
from headwater.tiering.task import LocalRunner
from tests.tiering.shaky import Shaking
from tests.tiering.world import rows


@pytest.mark.parametrize("key", ["id", ()])
async def test_a_log_table_comes_to_the_lake(world, key):
    table = await world.table(bucket_by=key)
    await table.append(rows(*range(50)))
    await table.append(rows(*range(50, 100)))

    report = await world.tier(table)

    assert report.row_count == 100
    assert sum(world.lake_rows(table).values()) == 100
    assert (await world.check(table)).snapshot_id == report.snapshot.snapshot_id


async def test_rounds_go_on_where_the_last_one_ended(world):
    table = await world.table(buckets=1)
    for turn in (1, 2, 3):
        await table.append(rows(turn))
        report = await world.tier(table, turn)
        assert report.tiered == {LakeBucket(None, 0): OffsetRange(turn - 1, turn)}

    await world.check(table)


async def test_a_round_without_news_makes_no_snapshot(world):
    table = await world.table()
    await table.append(rows(1))
    first = await world.tier(table, 1)

    second = await world.tier(table, 2)

    assert second.snapshot.snapshot_id == first.snapshot.snapshot_id
    assert second.tiered == {}


async def test_a_table_by_key_comes_to_the_lake_with_updates_and_deletes(world):
    table = await world.keyed()
    await table.upsert(rows(*range(50)))
    await world.tier(table, 1)
    await table.upsert(rows(*range(10, 20), text="b"))
    await table.delete([{"id": number} for number in range(5)])
    await world.tier(table, 2)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 45


async def test_the_server_is_told_what_the_lake_holds(world, hw):
    table = await world.table(buckets=1)
    await table.append(rows(1, 2, 3))

    report = await world.tier(table)
    known = await hw.lake.snapshot(table.path)

    assert known.snapshot_id == report.snapshot.snapshot_id
    assert known.ends == {LakeBucket(None, 0): 3}


@pytest.mark.parametrize("rows_max", [1, 2, 3, 7])
async def test_a_table_by_key_may_be_cut_anywhere(world, rows_max):
    table = await world.keyed(buckets=1)
    await table.upsert(rows(*range(4)))
    await world.tier(table, 1)
    await table.upsert(rows(1, 2, text="b"))
    await table.delete([{"id": 3}])
    await table.upsert(rows(3, 2, text="c"))
    world.limits = Limits(rows_max=rows_max)

    for turn in range(2, 20):
        report = await world.tier(table, turn)
        await world.check(table)
        if not report.rows_left:
            break

    assert sum(world.lake_rows(table).values()) == 4


async def test_a_task_that_fails_leaves_no_files_of_the_others(world):
    table = await world.table(buckets=4)
    await table.append(rows(*range(40)))
    await world.tier(table, 1)
    await table.append(rows(*range(40, 80)))
    real, opened = world.lakes, []

    def vanish():
        opened.append(1)
        if len(opened) == 3:
            raise LakeUnreachableError("The disk is full.")

    world.lakes = Shaking(before_write=vanish).over(real)
    with pytest.raises(LakeUnreachableError, match="The disk is full"):
        await world.tier(table, 2, runner=LocalRunner(world.hw, parallel=1))

    assert world.stray_files(table) == set()
    world.lakes = real
    await world.tier(table, 3)
    await world.check(table)


async def test_a_lake_that_lost_more_than_one_round_brings_back_is_made_up_for(world, hw):
    table = await world.table(buckets=1)
    await table.append(rows(*range(10)))
    await world.tier(table, 1)
    world.lakes.of(table.info).catalog().drop(table.path)
    world.limits = Limits(rows_max=4)

    for turn in (2, 3, 4):
        await world.tier(table, turn)
        head = await world.check(table)
        known = await hw.lake.snapshot(table.path)
        assert known.snapshot_id == head.snapshot_id

    assert sum(known.ends.values()) == 10


async def test_a_table_without_rows_makes_no_snapshot(world):
    table = await world.table()

    report = await world.tier(table)

    assert report.snapshot is None
    assert world.head(table) is None
