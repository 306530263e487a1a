"""The tables of a cluster come to its lake, which the cluster is told of."""

import asyncio

import pytest

from headwater.errors import TieringFencedError
from headwater.tiering.progress import RoundStep
from tests.tiering.world import KilledError, killing, rows


async def test_a_log_table_comes_to_the_lake_round_by_round(world):
    table = await world.table()
    await table.append(rows(*range(10)))
    await world.tier(table)
    await table.append(rows(*range(10, 15)))

    report = await world.tier(table)

    head = await world.check(table)
    assert report.row_count == 5
    assert sum(world.lake_rows(table).values()) == 15
    ends = {bucket: held.end for bucket, held in head.boundary.ranges.items()}
    assert await world.told(table) == (head.snapshot_id, ends)


async def test_a_table_by_key_comes_to_the_lake_with_updates_and_deletes(world):
    table = await world.keyed()
    await table.upsert(rows(*range(10)))
    await world.tier(table)
    await table.upsert(rows(3, 4, 11, text="b"))
    await table.delete([{"id": 5}])

    await world.tier(table)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 10


async def test_every_partition_comes_to_the_lake(world):
    schema = {"id": "BIGINT", "text": "STRING", "day": "STRING"}
    table = await world.table(schema=schema, partition_by="day")
    for day in ("one", "two"):
        await table.create_partition({"day": day})
        await table.append([{**row, "day": day} for row in rows(1, 2, 3)])

    report = await world.tier(table)

    await world.check(table)
    assert report.row_count == 6


async def test_a_snapshot_that_was_not_reported_is_adopted(world):
    table = await world.table()
    await table.append(rows(*range(10)))
    with pytest.raises(KilledError):
        await world.tier(table, watch=killing(RoundStep.REPORT))
    assert await world.hw.lake.snapshot(table.path) is None

    report = await world.tier(table)

    head = await world.check(table)
    assert report.adopted
    assert not report.tiered
    assert (await world.told(table))[0] == head.snapshot_id


async def test_a_tierer_whose_turn_is_over_cannot_commit(world):
    table = await world.table()
    await table.append(rows(*range(10)))
    first = await world.handed_out(table)

    async def overtake(step: RoundStep) -> None:
        if step is RoundStep.COMMIT:
            await world.give_back(first)
            await world.tier(table)

    with pytest.raises(TieringFencedError):
        await world.round(first, watch=overtake)

    await world.check(table)
    assert sum(world.lake_rows(table).values()) == 10


async def test_two_services_share_the_tables_of_a_cluster(world):
    tables = [await world.table(), await world.keyed()]
    for number, table in enumerate(tables):
        write = table.upsert if table.info.is_keyed else table.append
        await write(rows(*range(10 + number)))

    reports = await asyncio.gather(*map(world.serve, tables))

    for table, report in zip(tables, reports, strict=True):
        head = await world.check(table)
        assert head.boundary.ranges == report.snapshot.boundary.ranges
        assert sum(world.lake_rows(table).values()) in (10, 11)
