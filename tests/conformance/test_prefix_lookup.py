"""Rows are found by the start of their key, which is the bucket key."""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.keyed import create_keyed, delete, upsert
from tests.conformance.keyed import upsert_together as together

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.int64()), ("v", pa.string())])


def row(a, b, c, v="v"):
    return {"a": a, "b": b, "c": c, "v": v}


async def table_of(connection, path, *, prefix=("a",), **options):
    return await create_keyed(
        connection, path, SCHEMA, key=["a", "b", "c"], bucket_keys=list(prefix), **options
    )


async def found(table, prefix, *, by=("a",)):
    lookuper = table.new_lookup().lookup_by(list(by)).create_lookuper()
    rows = await lookuper.lookup(prefix)
    return sorted(rows, key=lambda each: (each["b"], each["c"]))


async def test_all_rows_of_a_prefix_are_found_and_no_others(connection, path):
    table = await table_of(connection, path, bucket_count=3)
    rows = [row(a, b, c) for a in (1, 2, 11) for b in ("x", "y") for c in (1, 2)]

    await upsert(table, *rows)

    assert await found(table, {"a": 1}) == rows[:4]
    assert await found(table, [11]) == rows[8:]
    assert await found(table, [3]) == []


async def test_a_prefix_of_two_columns_keeps_them_apart(connection, path):
    by = ("a", "b")
    table = await table_of(connection, path, prefix=by)

    await upsert(table, row(1, "x", 1), row(1, "xy", 2), row(1, "", 3))

    assert await found(table, {"a": 1, "b": "x"}, by=by) == [row(1, "x", 1)]
    assert await found(table, {"a": 1, "b": ""}, by=by) == [row(1, "", 3)]


async def test_a_prefix_shows_updates_and_deletes(connection, path):
    table = await table_of(connection, path)
    await upsert(table, row(1, "x", 1), row(1, "x", 2), row(1, "x", 3))

    await upsert(table, row(1, "x", 2, "new"))
    await delete(table, {"a": 1, "b": "x", "c": 3})

    assert await found(table, [1]) == [row(1, "x", 1), row(1, "x", 2, "new")]


async def test_a_prefix_with_thousands_of_rows_comes_whole(connection, path):
    table = await table_of(connection, path, bucket_count=2)
    rows = [row(number % 3, "b", number) for number in range(6_000)]

    await together(table, rows)

    assert await found(table, [1]) == rows[1::3]


async def test_a_prefix_lookup_in_a_partition_sees_that_partition_only(connection, admin, path):
    table = await create_keyed(
        connection,
        path,
        SCHEMA,
        key=["b", "a", "c"],
        bucket_keys=["a"],
        partition_keys=["b"],
    )
    for name in ("x", "y"):
        await admin.create_partition(path, {"b": name})
    await upsert(table, row(1, "x", 1), row(1, "x", 2), row(1, "y", 3), row(2, "x", 4))

    rows = await found(table, {"b": "x", "a": 1}, by=("b", "a"))

    assert rows == [row(1, "x", 1), row(1, "x", 2)]


async def test_columns_that_are_no_prefix_are_refused(connection, path):
    table = await table_of(connection, path)

    with pytest.raises(fluss.FlussError):
        table.new_lookup().lookup_by(["b"]).create_lookuper()
