"""Rows of a primary-key table are read without naming their keys."""

import pyarrow as pa

from tests.conformance.keyed import create_keyed, delete, limited, upsert
from tests.conformance.keyed import upsert_together as together
from tests.conformance.test_types import NESTED, NESTED_ROWS, PLAIN, ROW

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("score", pa.int64())])


def rows_of(count):
    return [{"id": n, "name": f"n{n}", "score": None if n % 5 == 0 else n} for n in range(count)]


def by_id(table):
    return sorted(table.to_pylist(), key=lambda row: row["id"])


async def table_of(connection, path, **options):
    return await create_keyed(connection, path, SCHEMA, key=["id"], **options)


async def test_a_limit_above_the_rows_returns_all_of_them(connection, path):
    table = await table_of(connection, path)
    await together(table, rows_of(3_000))

    assert by_id(await limited(table, 10_000)) == rows_of(3_000)


async def test_a_limit_below_the_rows_returns_so_many_of_them(connection, path):
    table = await table_of(connection, path)
    await together(table, rows_of(100))

    read = await limited(table, 7)

    assert read.num_rows == 7
    assert all(row in rows_of(100) for row in read.to_pylist())


async def test_a_scan_shows_the_last_row_of_each_key_and_no_deleted_one(connection, path):
    table = await table_of(connection, path)
    await together(table, rows_of(10))

    await upsert(table, {"id": 3, "name": "new", "score": 0})
    await delete(table, {"id": 4})

    expected = [row for row in rows_of(10) if row["id"] != 4]
    expected[3] = {"id": 3, "name": "new", "score": 0}
    assert by_id(await limited(table, 100)) == expected


async def test_an_empty_table_has_no_rows(connection, path):
    table = await table_of(connection, path)

    assert (await limited(table, 10)).num_rows == 0


async def test_a_scan_shows_the_columns_it_is_asked_for(connection, path):
    table = await table_of(connection, path)
    await together(table, rows_of(20))

    read = await limited(table, 100, columns=["score", "id"])

    assert read.column_names == ["score", "id"]
    assert by_id(read) == [{"score": row["score"], "id": row["id"]} for row in rows_of(20)]


async def test_each_bucket_is_scanned_on_its_own(connection, path):
    table = await table_of(connection, path, bucket_count=3)
    await together(table, rows_of(300))

    parts = [await limited(table, 1_000, bucket=bucket) for bucket in range(3)]

    assert min(part.num_rows for part in parts) > 50
    assert by_id(pa.concat_tables(parts)) == rows_of(300)


async def test_every_type_is_read_by_a_scan(connection, path):
    schema = pa.schema([("id", pa.int32()), *PLAIN, *NESTED])
    table = await create_keyed(connection, path, schema, key=["id"])
    rows = [{"id": at} | ROW | nested for at, nested in enumerate(NESTED_ROWS)]

    await together(table, rows)

    assert by_id(await limited(table, 10)) == rows
