"""Rows get a number when they are new, and keep it."""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.keyed import changelog, create_keyed, delete, lookup, shown, upsert

SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int64()), ("score", pa.int64())])
WRITTEN = ["name", "score"]


async def table_of(connection, path, **options):
    return await create_keyed(connection, path, SCHEMA, key=["name"], numbered="number", **options)


def row(name, score=None):
    return {"name": name, "score": score}


async def numbers_of(table, *names):
    return [found["number"] for found in await lookup(table, *([name] for name in names))]


async def test_new_rows_are_numbered_from_one_on(connection, path):
    table = await table_of(connection, path)

    await upsert(table, *map(row, "abc"), columns=WRITTEN)

    assert await numbers_of(table, "a", "b", "c") == [1, 2, 3]


async def test_a_row_keeps_its_number_when_it_changes(connection, path):
    table = await table_of(connection, path)
    await upsert(table, row("a"), row("b"), columns=WRITTEN)

    await upsert(table, row("a", 7), columns=WRITTEN)

    assert await lookup(table, ["a"]) == [{"name": "a", "number": 1, "score": 7}]
    assert shown(await changelog(table, 4))[2:] == [
        ("-U", {"name": "a", "number": 1, "score": None}),
        ("+U", {"name": "a", "number": 1, "score": 7}),
    ]


async def test_no_number_is_given_twice_in_several_buckets(connection, path):
    table = await table_of(connection, path, bucket_count=3)
    names = [f"n{number}" for number in range(100)]
    writer = table.new_upsert().partial_update_by_name(WRITTEN).create_writer()

    for name in names:
        writer.upsert(row(name))
    await writer.flush()

    given = await numbers_of(table, *names)
    assert len(set(given)) == 100
    assert min(given) >= 1


async def test_a_delete_of_the_written_columns_leaves_a_numbered_row(connection, path):
    table = await table_of(connection, path)
    await upsert(table, row("a", 5), columns=WRITTEN)

    await delete(table, {"name": "a"}, columns=WRITTEN)

    assert await lookup(table, ["a"]) == [{"name": "a", "number": 1, "score": None}]


async def test_a_number_cannot_be_written(connection, path):
    table = await table_of(connection, path)

    with pytest.raises(fluss.FlussError):
        await upsert(table, {"name": "a", "number": 9, "score": 1})

    assert await lookup(table, ["a"]) == [None]
