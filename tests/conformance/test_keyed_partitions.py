"""Partitioned primary-key tables through the Fluss client."""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.client import poll_records
from tests.conformance.keyed import create_keyed, delete, limited, lookup, shown, upsert

SCHEMA = pa.schema([("region", pa.string()), ("id", pa.int32()), ("value", pa.int64())])


def row(region, number, value):
    return {"region": region, "id": number, "value": value}


def key(region, number):
    return {"region": region, "id": number}


async def partitioned(connection, admin, path, **options):
    table = await create_keyed(
        connection, path, SCHEMA, key=["region", "id"], partition_keys=["region"], **options
    )
    for region in ("US", "EU"):
        await admin.create_partition(path, {"region": region})
    return table


async def ids_by_name(admin, path):
    infos = await admin.list_partition_infos(path)
    return {info.partition_name: info.partition_id for info in infos}


async def test_the_same_key_names_another_row_in_each_partition(connection, admin, path):
    table = await partitioned(connection, admin, path, bucket_count=2)
    await upsert(table, row("US", 1, 10), row("EU", 1, 20), row("US", 2, 30))

    await upsert(table, row("US", 1, 11))
    await delete(table, key("US", 2))

    found = await lookup(table, key("US", 1), key("EU", 1), key("US", 2), key("EU", 2))
    assert found == [row("US", 1, 11), row("EU", 1, 20), None, None]


async def test_a_key_in_a_partition_that_does_not_exist_is_not_found(connection, admin, path):
    table = await partitioned(connection, admin, path)

    assert await lookup(table, key("MOON", 1)) == [None]


async def test_part_of_a_row_in_a_partition_is_updated(connection, admin, path):
    table = await partitioned(connection, admin, path)
    await upsert(table, row("US", 1, 10))

    await upsert(table, row("US", 1, 11), columns=["region", "id", "value"])

    assert await lookup(table, key("US", 1)) == [row("US", 1, 11)]


async def test_each_partition_has_its_own_changelog(connection, admin, path):
    table = await partitioned(connection, admin, path)
    await upsert(table, row("US", 1, 10), row("EU", 1, 20), row("US", 1, 11))
    ids = await ids_by_name(admin, path)

    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe_partition(ids["US"], 0, fluss.EARLIEST_OFFSET)
    records = await poll_records(scanner, 3)

    assert shown(records) == [
        ("+I", row("US", 1, 10)),
        ("-U", row("US", 1, 10)),
        ("+U", row("US", 1, 11)),
    ]


async def test_a_partition_is_scanned_on_its_own(connection, admin, path):
    table = await partitioned(connection, admin, path)
    await upsert(table, row("US", 1, 10), row("EU", 1, 20), row("EU", 2, 21))
    ids = await ids_by_name(admin, path)

    read = await limited(table, 10, partition=ids["EU"])

    assert sorted(read.to_pylist(), key=str) == [row("EU", 1, 20), row("EU", 2, 21)]


async def test_a_dropped_partition_takes_its_rows_along_for_good(connection, admin, path):
    table = await partitioned(connection, admin, path)
    await upsert(table, row("US", 1, 10), row("EU", 1, 20))

    await admin.drop_partition(path, {"region": "US"})

    assert set(await ids_by_name(admin, path)) == {"EU"}
    with pytest.raises(fluss.FlussError):
        await admin.list_partition_offsets(path, "US", [0], fluss.OffsetSpec.latest())
    assert await lookup(table, key("EU", 1)) == [row("EU", 1, 20)]
