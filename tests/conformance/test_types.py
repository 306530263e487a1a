"""Every data type, nested ones included, survives the way through the log."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.conformance.client import append, append_rows, create, poll_records, read_all

PLAIN = pa.schema(
    [
        ("boolean", pa.bool_()),
        ("tinyint", pa.int8()),
        ("smallint", pa.int16()),
        ("int", pa.int32()),
        ("bigint", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("bytes", pa.binary()),
        ("binary", pa.binary(4)),
        ("decimal", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 10)),
        ("date", pa.date32()),
        ("time_s", pa.time32("s")),
        ("time_ms", pa.time32("ms")),
        ("stamp_s", pa.timestamp("s")),
        ("stamp_ms", pa.timestamp("ms")),
        ("stamp_us", pa.timestamp("us")),
        ("stamp_ns", pa.timestamp("ns")),
        ("instant_us", pa.timestamp("us", tz="UTC")),
    ]
)
MOMENT = datetime(2026, 1, 2, 3, 4, 5)
ROW = {
    "boolean": True,
    "tinyint": -128,
    "smallint": 32767,
    "int": -(2**31),
    "bigint": 2**63 - 1,
    "float": 1.5,
    "double": -2.25,
    "string": "häadwåter",
    "bytes": b"\x00\xff",
    "binary": b"abcd",
    "decimal": Decimal("-12345678.90"),
    "wide": Decimal("1234567890123456789012345678.0123456789"),
    "date": date(1969, 12, 31),
    "time_s": time(23, 59, 59),
    "time_ms": time(1, 2, 3, 4000),
    "stamp_s": MOMENT,
    "stamp_ms": MOMENT.replace(microsecond=6000),
    "stamp_us": MOMENT.replace(microsecond=7),
    "stamp_ns": MOMENT,
    "instant_us": MOMENT.replace(microsecond=8, tzinfo=UTC),
}
NESTED = pa.schema(
    [
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("row", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("deep", pa.list_(pa.struct([("tags", pa.list_(pa.string())), ("n", pa.int64())]))),
    ]
)
NESTED_ROWS = [
    {
        "list": [1, None, 3],
        "map": [("x", 1), ("y", None)],
        "row": {"a": 1, "b": "one"},
        "deep": [{"tags": ["p", "q"], "n": 7}, {"tags": [], "n": None}],
    },
    {"list": [], "map": [], "row": {"a": None, "b": None}, "deep": None},
    {"list": None, "map": None, "row": None, "deep": []},
]


@pytest.mark.parametrize("compression", ["NONE", "LZ4_FRAME", "ZSTD"])
async def test_every_plain_type_survives_in_every_compression(connection, admin, path, compression):
    options = {"table.log.arrow.compression.type": compression}
    await create(admin, path, PLAIN, properties=options)
    table = await connection.get_table(path)
    data = pa.Table.from_pylist([ROW, dict.fromkeys(PLAIN.names), ROW], schema=PLAIN)

    await append(table, data)

    assert (await read_all(table)).to_pylist() == data.to_pylist()


async def test_nested_types_survive_as_arrow(connection, admin, path):
    await create(admin, path, NESTED)
    table = await connection.get_table(path)
    data = pa.Table.from_pylist(NESTED_ROWS, schema=NESTED)

    await append(table, data)

    assert (await read_all(table)).to_pylist() == data.to_pylist()


async def test_nested_types_survive_as_rows(connection, admin, path):
    await create(admin, path, NESTED)
    table = await connection.get_table(path)
    await append_rows(table, NESTED_ROWS)

    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, 0)
    records = await poll_records(scanner, 3)

    assert [record.row for record in records] == NESTED_ROWS


@pytest.mark.parametrize("columns", [["deep"], ["map", "list"], ["row", "deep", "list"]])
async def test_nested_columns_can_be_projected(connection, admin, path, columns):
    await create(admin, path, NESTED)
    table = await connection.get_table(path)
    data = pa.Table.from_pylist(NESTED_ROWS, schema=NESTED)
    await append(table, data)

    read = await read_all(table, scan=table.new_scan().project_by_name(columns))

    assert read.to_pylist() == data.select(columns).to_pylist()


@pytest.mark.parametrize("name", PLAIN.names)
async def test_every_plain_column_can_be_projected_alone(connection, admin, path, name):
    await create(admin, path, PLAIN)
    table = await connection.get_table(path)
    data = pa.Table.from_pylist([ROW, dict.fromkeys(PLAIN.names)], schema=PLAIN)
    await append(table, data)

    read = await read_all(table, scan=table.new_scan().project_by_name([name]))

    assert read[name].to_pylist() == data[name].to_pylist()
