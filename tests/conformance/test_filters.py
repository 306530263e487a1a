"""Filters: the server skips batches whose statistics cannot match."""

from datetime import datetime
from decimal import Decimal

import fluss
import pyarrow as pa
import pytest

from tests.conformance.client import append, create, poll_records, read_all, read_filtered

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us")),
        ("weight", pa.float64()),
    ]
)
col = fluss.col


def batch_of(start: int, end: int) -> pa.RecordBatch:
    ids = list(range(start, end))
    return pa.record_batch(
        [
            ids,
            [f"n{i:04}" for i in ids],
            [Decimal(i) / 4 for i in ids],
            [datetime(2026, 1, 1 + i // 100, 0, 0, 0, i) for i in ids],
            [float(i) if i >= 200 else None for i in ids],
        ],
        schema=SCHEMA,
    )


async def three_batches(connection, admin, path, **options):
    await create(admin, path, SCHEMA, **options)
    table = await connection.get_table(path)
    for start in (0, 100, 200):
        await append(table, batch_of(start, start + 100))
    return table


@pytest.mark.parametrize(
    ("predicate", "batches"),
    [
        (col("id") == 150, [1]),
        (col("id") != 150, [0, 1, 2]),
        (col("id") < 100, [0]),
        (col("id") <= 100, [0, 1]),
        (col("id") > 199, [2]),
        (col("id") >= 199, [1, 2]),
        (col("id") > 1000, []),
        (col("name").starts_with("n01"), [1]),
        (col("name") == "n0250", [2]),
        (col("price") >= Decimal("50.00"), [2]),
        (col("at") < datetime(2026, 1, 2), [0]),
        (col("weight").is_null(), [0, 1]),
        (col("weight").is_not_null(), [2]),
        (col("id").is_in([5, 250]), [0, 2]),
        ((col("id") < 50) | (col("id") > 250), [0, 2]),
        ((col("id") > 50) & (col("name") < "n0060"), [0]),
    ],
)
async def test_only_batches_that_can_match_are_sent(connection, admin, path, predicate, batches):
    options = {"table.statistics.columns": "*"}
    table = await three_batches(connection, admin, path, properties=options)

    read = await read_filtered(table.new_scan().filter(predicate))

    expected = [i for batch in batches for i in range(batch * 100, batch * 100 + 100)]
    assert read["id"].to_pylist() == expected


async def test_without_statistics_every_batch_is_sent(connection, admin, path):
    table = await three_batches(connection, admin, path)

    read = await read_all(table, scan=table.new_scan().filter(col("id") == 150))

    assert read.num_rows == 300


async def test_a_filter_and_a_projection_work_together(connection, admin, path):
    options = {"table.statistics.columns": "id"}
    table = await three_batches(connection, admin, path, properties=options)
    scan = table.new_scan().filter(col("id") >= 200).project_by_name(["name"])

    read = await read_filtered(scan)

    assert read.column_names == ["name"]
    assert read["name"].to_pylist() == [f"n{i:04}" for i in range(200, 300)]


async def test_a_filtered_scanner_goes_on_behind_the_skipped_batches(connection, admin, path):
    options = {"table.statistics.columns": "id"}
    table = await three_batches(connection, admin, path, properties=options)
    scanner = await table.new_scan().filter(col("id") >= 1000).create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    assert (await scanner.poll(300)).is_empty()

    await append(table, batch_of(1000, 1010))

    records = await poll_records(scanner, 10)
    assert [record.offset for record in records] == list(range(300, 310))
