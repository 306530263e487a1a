"""The cluster that the suite starts is a real one: the official client works with it."""

import pyarrow as pa

from tests.conformance.client import append, create, read_all
from tests.conformance.keyed import changelog, create_keyed, limited, lookup, shown, upsert
from tests.interop.official import settled

KEYED = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])


async def test_appended_rows_are_read_back_from_all_buckets(connection, admin, path):
    rows = pa.table({"id": pa.array(range(100), pa.int32()), "name": ["a", "b"] * 50})
    await create(admin, path, rows.schema, bucket_count=3)
    await settled(admin, path, buckets=3)
    table = await connection.get_table(path)

    await append(table, rows)

    read = await read_all(table, buckets=3)
    assert read.sort_by("id") == rows


async def test_the_newest_row_of_a_key_is_looked_up(connection, admin, path):
    table = await create_keyed(connection, path, KEYED, key=["id"])
    await settled(admin, path, buckets=1)

    await upsert(table, {"id": 1, "name": "old"}, {"id": 1, "name": "new"})

    assert await lookup(table, {"id": 1}, {"id": 2}) == [{"id": 1, "name": "new"}, None]


async def test_upserts_leave_a_changelog_and_a_state(connection, admin, path):
    table = await create_keyed(connection, path, KEYED, key=["id"])
    await settled(admin, path, buckets=1)

    await upsert(table, {"id": 1, "name": "old"}, {"id": 1, "name": "new"})

    assert shown(await changelog(table, 3)) == [
        ("+I", {"id": 1, "name": "old"}),
        ("-U", {"id": 1, "name": "old"}),
        ("+U", {"id": 1, "name": "new"}),
    ]
    assert (await limited(table, 10)).to_pylist() == [{"id": 1, "name": "new"}]
