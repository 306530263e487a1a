"""Rounds on a real storage, into every lake format."""

from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from tests.tiering.world import rows


async def test_a_log_table_comes_to_the_lake(world):
    table = await world.table()
    await table.append(rows(*range(100)))

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
