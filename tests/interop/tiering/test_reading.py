"""Lake and log of a table of a cluster are read as one."""

import asyncio

import duckdb
import pytest

import headwater.duckdb
from tests.tiering.world import rows


async def ids(table, **position) -> list[int]:
    view = await table.view(**position)
    return sorted((await view.scan(columns="id").to_arrow()).column("id").to_pylist())


async def test_a_log_table_is_its_lake_and_what_came_since(world):
    table = await world.table()
    await table.append(rows(*range(10)))
    await world.tier(table)
    await table.append(rows(10, 11))
    token = (await table.view()).token()
    await table.append(rows(12))
    await world.tier(table)

    assert await ids(table) == list(range(13))
    assert await ids(table, token=token) == list(range(12))
    assert await ids(table, mode="lake") == list(range(13))


async def test_rows_by_key_are_those_of_the_lake_with_their_changes(world):
    table = await world.keyed()
    await table.upsert(rows(*range(10)))
    await world.tier(table)
    await table.upsert(rows(3, 11, text="b"))
    await table.delete([{"id": 5}])

    view = await table.view()
    texts = {row["id"]: row["text"] for row in await view.scan().to_pylist()}

    assert view.value.snapshot is not None
    assert sorted(texts) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 11]
    assert (texts[3], texts[4]) == ("b3", "a4")


async def test_partitions_are_read_from_both(world):
    schema = {"id": "BIGINT", "text": "STRING", "day": "STRING"}
    table = await world.table(schema=schema, partition_by="day")
    for number, day in enumerate(("one", "two")):
        await table.create_partition({"day": day})
        await table.append([{**row, "day": day} for row in rows(number)])
        if number == 0:
            await world.tier(table)

    assert await ids(table) == [0, 1]


@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
async def test_duckdb_reads_a_table_of_a_cluster(world, lake_cluster, is_keyed):
    table = await (world.keyed() if is_keyed else world.table())
    write = table.upsert if is_keyed else table.append
    await write(rows(1, 2))
    await world.tier(table)
    await write(rows(3))

    def query() -> list[tuple[int]]:
        with duckdb.connect() as connection:
            headwater.duckdb.install(connection, lake=dict(lake_cluster.lakes.config))
            return connection.execute(
                "select id from fluss_read(?, ?, ?) order by id",
                [lake_cluster.cluster.bootstrap, table.path.database, table.path.table],
            ).fetchall()

    assert await asyncio.to_thread(query) == [(1,), (2,), (3,)]
