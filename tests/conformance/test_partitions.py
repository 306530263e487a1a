"""Partitioned log tables through the Fluss client."""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.client import append, append_rows, create, poll_records

SCHEMA = pa.schema([("id", pa.int32()), ("region", pa.string()), ("value", pa.int64())])
ROWS = [
    {"id": 1, "region": "US", "value": 100},
    {"id": 2, "region": "EU", "value": 200},
    {"id": 3, "region": "US", "value": 300},
]


async def ids_by_name(admin, path):
    infos = await admin.list_partition_infos(path)
    return {info.partition_name: info.partition_id for info in infos}


async def partitioned(connection, admin, path):
    await create(admin, path, SCHEMA, partition_keys=["region"])
    for region in ("US", "EU"):
        await admin.create_partition(path, {"region": region})
    return await connection.get_table(path)


async def test_rows_go_to_the_partition_of_their_values(connection, admin, path):
    table = await partitioned(connection, admin, path)

    await append_rows(table, ROWS)

    assert set(await ids_by_name(admin, path)) == {"US", "EU"}
    us = await admin.list_partition_offsets(path, "US", [0], fluss.OffsetSpec.latest())
    assert us == {0: 2}


async def test_each_partition_is_read_by_its_own_offsets(connection, admin, path):
    table = await partitioned(connection, admin, path)
    await append_rows(table, ROWS)
    ids = await ids_by_name(admin, path)

    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe_partition_buckets({(ids["US"], 0): 1, (ids["EU"], 0): 0})
    records = await poll_records(scanner, 2)

    assert sorted(record.row["id"] for record in records) == [2, 3]


async def test_a_partition_is_read_as_arrow_with_a_projection(connection, admin, path):
    table = await partitioned(connection, admin, path)
    await append(table, pa.RecordBatch.from_pylist([ROWS[0], ROWS[2]], schema=SCHEMA))
    ids = await ids_by_name(admin, path)
    scan = table.new_scan().project_by_name(["value", "region"])
    scanner = await scan.create_record_batch_log_scanner()

    scanner.subscribe_partition(ids["US"], 0, fluss.EARLIEST_OFFSET)
    read = await scanner.to_arrow()

    assert read.to_pylist() == [
        {"value": 100, "region": "US"},
        {"value": 300, "region": "US"},
    ]


async def test_a_dropped_partition_takes_its_rows_along(connection, admin, path):
    table = await partitioned(connection, admin, path)
    await append_rows(table, ROWS)

    await admin.drop_partition(path, {"region": "US"})

    assert set(await ids_by_name(admin, path)) == {"EU"}
    with pytest.raises(fluss.FlussError):
        await admin.list_partition_offsets(path, "US", [0], fluss.OffsetSpec.latest())
