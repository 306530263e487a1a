"""What the Fluss client writes our client reads, and the other way round."""

import pyarrow as pa
import pytest
import pytest_asyncio

from headwater import aio
from tests.conformance.client import append, create, read_all
from tests.conformance.keyed import changelog, create_keyed, lookup, upsert, upsert_together
from tests.conformance.test_types import NESTED, NESTED_ROWS, PLAIN, ROW

EVERYTHING = pa.schema([pa.field("id", pa.int32()), *PLAIN, *NESTED])
EMPTY = dict.fromkeys(EVERYTHING.names)
ROWS = [
    {**EMPTY, "id": 1, **ROW, **NESTED_ROWS[0]},
    {**EMPTY, "id": 2, **NESTED_ROWS[1]},
    {**EMPTY, "id": 3, **ROW},
]
KEYS = range(200)


@pytest_asyncio.fixture
async def client(server):
    async with await aio.connect(server.address) as client:
        yield client


@pytest.fixture
def name(path):
    return f"{path.database_name}.{path.table_name}"


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


async def test_rows_of_every_type_that_it_appends_we_scan(connection, admin, path, client, name):
    await create(admin, path, EVERYTHING)

    await append(await connection.get_table(path), pa.Table.from_pylist(ROWS, schema=EVERYTHING))

    ours = await client.table(name)
    assert ours.schema == EVERYTHING
    assert (await ours.scan().to_arrow()).to_pylist() == ROWS


async def test_rows_of_every_type_that_we_append_it_scans(connection, path, client, name):
    ours = await client.create_table(name, EVERYTHING)

    await ours.append(ROWS)

    theirs = await connection.get_table(path)
    assert (await read_all(theirs)).to_pylist() == ROWS


async def test_rows_of_every_type_that_it_upserts_we_find(connection, path, client, name):
    theirs = await create_keyed(connection, path, EVERYTHING, key=["id"])

    await upsert(theirs, *ROWS)

    ours = await client.table(name)
    assert (await ours.lookup([{"id": 1}, {"id": 2}, {"id": 3}])).to_pylist() == ROWS
    assert by_id((await ours.scan().to_arrow()).to_pylist()) == ROWS


async def test_rows_of_every_type_that_we_upsert_it_finds(connection, path, client, name):
    ours = await client.create_table(name, EVERYTHING, primary_key="id")

    await ours.upsert(ROWS)

    theirs = await connection.get_table(path)
    assert await lookup(theirs, {"id": 1}, {"id": 2}, {"id": 3}) == ROWS
    assert [record.row for record in await changelog(theirs, 3)] == ROWS


async def test_both_put_a_key_into_the_same_bucket(connection, path, client, name):
    schema = {"city": "STRING", "number": "BIGINT", "by": "STRING"}
    ours = await client.create_table(
        name,
        schema,
        primary_key=["city", "number"],
        buckets=7,
        # Without it our client follows the one in Java, with which pyfluss does not always agree.
        options={"headwater.bucket-hash": "pyfluss"},
    )
    theirs = await connection.get_table(path)
    keys = [{"city": "s" * (number % 9), "number": number**5} for number in KEYS]

    await ours.upsert([{**key, "by": "us"} for key in keys])
    assert [row["by"] for row in await lookup(theirs, *keys[:5])] == ["us"] * 5
    await upsert_together(theirs, [{**key, "by": "them"} for key in keys])

    assert await ours.count() == len(keys)
    found = await ours.lookup(keys)
    assert found.column("by").to_pylist() == ["them"] * len(keys)


async def test_both_put_a_row_into_the_same_partition(connection, path, client, name):
    schema = {"day": "STRING", "id": "INT", "by": "STRING"}
    ours = await client.create_table(
        name, schema, primary_key=["day", "id"], partition_by="day", buckets=3
    )
    await ours.upsert([{"day": "monday", "id": number, "by": "us"} for number in range(20)])

    theirs = await connection.get_table(path)
    await upsert_together(
        theirs, [{"day": "monday", "id": number, "by": "them"} for number in range(10, 30)]
    )

    rows = by_id((await ours.scan().to_arrow()).to_pylist())
    assert [row["by"] for row in rows] == ["us"] * 10 + ["them"] * 20


async def test_a_changelog_that_it_wrote_we_follow(connection, path, client, name):
    schema = pa.schema([("id", pa.int32()), ("text", pa.string())])
    theirs = await create_keyed(connection, path, schema, key=["id"])
    await upsert(theirs, {"id": 1, "text": "a"}, {"id": 1, "text": "b"})

    rows = await (await client.table(f"{name}$changelog")).scan().to_arrow()

    assert rows.select(["_change_type", "text"]).to_pylist() == [
        {"_change_type": "insert", "text": "a"},
        {"_change_type": "update_before", "text": "a"},
        {"_change_type": "update_after", "text": "b"},
    ]
