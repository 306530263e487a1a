"""Lake tables that a cluster made have columns of its own, and get those that tables get."""

import pytest

from headwater.lake.spi import SYSTEM_COLUMNS
from headwater.tiering.target import found_target, has_system_columns
from tests.tiering.world import rows


def columns_of(world, table) -> list[dict[str, object]]:
    """Return the rows of a lake table with the columns that the cluster gave it."""
    target = found_target(world.lakes, table.info)
    if not has_system_columns(target.spec):
        pytest.skip("this version of Apache Fluss makes lake tables without columns of its own")
    source = target.lake.source(target.spec)
    splits = source.plan(source.snapshot().snapshot_id)
    return [row for split in splits for batch in source.read(split) for row in batch.to_pylist()]


async def test_columns_of_older_versions_tell_where_a_row_stood_in_the_log(world):
    table = await world.table()
    await table.append(rows(*range(20)))

    await world.tier(table)

    logged = {
        row["id"]: (batch.bucket.bucket, offset, batch.timestamp_ms)
        for batch in await world.log(table)
        for row, offset in zip(batch.rows.to_pylist(), batch.offsets.tolist(), strict=True)
    }
    found = columns_of(world, table)
    assert len(found) == 20
    for row in found:
        bucket, offset, stamp = (row[name] for name in SYSTEM_COLUMNS)
        assert (bucket, offset, stamp.timestamp() * 1000) == logged[row["id"]]


async def test_rows_by_key_have_a_value_in_the_columns_of_older_versions(world):
    table = await world.keyed()
    await table.upsert(rows(1, 2))
    await world.tier(table)
    await table.upsert(rows(2, text="b"))

    await world.tier(table)

    found = {row["id"]: [row[name] for name in SYSTEM_COLUMNS] for row in columns_of(world, table)}
    assert found[1][1] == -1
    assert found[2][1] > 0
    assert all(None not in values for values in found.values())


async def test_an_added_column_comes_to_the_lake(world, lake_cluster):
    if lake_cluster.format == "iceberg":
        pytest.skip("Apache Fluss adds no columns to tables whose lake is Iceberg")
    table = await world.table()
    await table.append(rows(1))
    await world.tier(table)
    await table.add_column("more", "INT")
    await table.append([{**rows(2)[0], "more": 7}])

    await world.tier(table)

    await world.check(table)
    assert sorted(dict(row)["more"] or 0 for row in world.lake_rows(table)) == [0, 7]
