"""The reading half of the client against a real server: primary-key tables."""

import asyncio

import numpy as np
import pyarrow as pa
import pytest
import pytest_asyncio

from headwater.cluster.admin import Admin
from headwater.errors import (
    NotPrimaryKeyTableError,
    RequestError,
    ScannerMissingError,
)
from headwater.model.types import BigIntType
from headwater.read.log_scan import LogScan
from headwater.read.lookup import TableLookups
from headwater.read.offsets import buckets_of, count_rows
from headwater.read.state import TableStateScan
from headwater.read.tail import Tail
from headwater.read.values import BucketScan
from headwater.rows.log_batch import ChangeType
from tests.flows.client_writing import batch_of, writing_client
from tests.flows.test_client_reads import rows_of

KEYED = {"id": "INTEGER", "name": "STRING", "score": "BIGINT"}
DAYS = {"day": "STRING", "id": "INTEGER", "score": "BIGINT"}
KINDS = {"kind": "STRING", "id": "INTEGER", "score": "BIGINT"}
NUMBERED = {"name": "STRING", "number": "BIGINT"}
_GONE = (ChangeType.UPDATE_BEFORE, ChangeType.DELETE)


@pytest_asyncio.fixture
async def client(server):
    async with writing_client(server.port, state_scan_bytes_max=4_000) as client:
        yield client


def many(count, score=0):
    return [(number, f"n{number}", score) for number in range(count)]


def tuples(table: pa.Table | pa.RecordBatch) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def folded(batches) -> dict[int, tuple]:
    """Return the rows by their key after all changes."""
    rows: dict[int, tuple] = {}
    for batch in batches:
        for kind, row in zip(batch.changes.tolist(), tuples(batch.rows), strict=True):
            if kind in _GONE:
                del rows[row[0]]
            else:
                rows[row[0]] = row
    return rows


async def keyed(client, rows, *, buckets=3, **given):
    table = await client.create(KEYED, key=["id"], buckets=buckets, **given)
    await client.upserter(table).upsert([batch_of(table, *rows)])
    return table


# ---- scans


async def test_a_scan_returns_all_rows_over_several_calls(client):
    table = await keyed(client, many(1000))

    scan = TableStateScan(client.cluster, table)

    assert sorted(await rows_of(scan)) == many(1000)
    assert sum(scan.offsets.values()) == 1000
    assert (
        await count_rows(client.cluster, table, buckets=await buckets_of(client.cluster, table))
        == 1000
    )


async def test_a_scan_gives_some_columns_of_some_rows(client):
    table = await keyed(client, many(100))
    where = [("id", ">", 90), ("name", "!=", "n95")]

    found = await rows_of(
        TableStateScan(client.cluster, table, columns=["score", "id"], where=where)
    )

    assert sorted(found) == [(0, number) for number in range(91, 100) if number != 95]


@pytest.mark.parametrize("limit", [0, 1, 10, 500])
async def test_a_limit_is_kept(client, limit):
    table = await keyed(client, many(300))

    whole = await rows_of(TableStateScan(client.cluster, table, limit=limit))
    some = await rows_of(TableStateScan(client.cluster, table, limit=limit, where=("id", "<", 150)))

    assert len(set(whole)) == len(whole) == min(limit, 300)
    assert len(set(some)) == len(some) == min(limit, 150)


async def test_a_scan_that_is_left_early_closes_its_scanners(client):
    table = await keyed(client, many(1000), buckets=1)

    for _ in range(20):  # more than a bucket may have at a time
        rows = aiter(TableStateScan(client.cluster, table))
        assert (await anext(rows)).num_rows > 0
        await rows.aclose()

    assert len(await rows_of(TableStateScan(client.cluster, table))) == 1000


async def test_rows_of_several_schemas_are_read_together(client):
    table = await keyed(client, many(50), buckets=1)
    await Admin(client.cluster).add_column(
        table.path, "extra", data_type=BigIntType(), comment=None
    )
    newer = await client.cluster.table(table.path)
    await client.upserter(newer).upsert([batch_of(newer, (7, "seven", 1, 77))])

    found = await rows_of(TableStateScan(client.cluster, newer, columns=["extra", "id"]))
    old = await rows_of(TableStateScan(client.cluster, table))

    assert sorted(found, key=lambda row: row[1])[6:9] == [(None, 6), (77, 7), (None, 8)]
    assert (7, "seven", 1) in old


async def test_a_scan_and_the_changes_after_it_make_up_the_table(client):
    table = await keyed(client, many(500))
    stop = asyncio.Event()

    async def write() -> None:
        upserter, generator = client.upserter(table), np.random.default_rng(7)
        while not stop.is_set():
            keys = generator.integers(0, 600, 20).tolist()
            rows = [(key, f"w{key}", int(generator.integers(100))) for key in dict.fromkeys(keys)]
            await upserter.upsert([batch_of(table, *rows)])
            gone = [(key,) for key in dict.fromkeys(generator.integers(0, 600, 3).tolist())]
            await upserter.delete([batch_of(table, *gone, columns=["id"])])

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        for _ in range(5):
            scan = TableStateScan(client.cluster, table)
            state = {row[0]: row for row in await rows_of(scan)}
            before = LogScan(client.cluster, table, end=scan.offsets)
            assert folded([batch async for batch in before.batches()]) == state
        stop.set()


async def test_a_tail_goes_on_where_a_scan_ended(client):
    table = await keyed(client, many(100))
    scan = TableStateScan(client.cluster, table)
    await rows_of(scan)
    await client.upserter(table).upsert([batch_of(table, (1, "one", 1))])

    async with Tail(client.cluster, table, start=scan.offsets) as tail:
        (batch,) = await tail.poll(10)

    assert tuples(batch.rows) == [(1, "n1", 0), (1, "one", 1)]


async def test_a_scanner_that_was_lost_is_told(client):
    table = await keyed(client, many(1000), buckets=1)
    (bucket,) = (await buckets_of(client.cluster, table)).values()
    scan = BucketScan(client.cluster, bucket, limit=None)
    parts = scan.parts()
    await anext(parts)

    await scan._close()

    with pytest.raises(ScannerMissingError, match="Start the scan again"):
        assert [part async for part in parts]


async def test_a_log_table_has_no_state(client):
    table = await client.create(KEYED)

    with pytest.raises(NotPrimaryKeyTableError):
        TableStateScan(client.cluster, table)
    with pytest.raises(NotPrimaryKeyTableError):
        TableLookups(client.cluster, table)


# ---- lookups


def keys_of(table, *keys):
    names = table.schema.primary_key
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    return batch_of(table, *rows, columns=names)


async def test_rows_are_found_in_the_order_of_their_keys(client):
    table = await keyed(client, many(100))

    found = await TableLookups(client.cluster, table).lookup(keys_of(table, 7, 99, 500, 7, 0))

    assert tuples(found) == [(7, "n7", 0), (99, "n99", 0), (7, "n7", 0), (0, "n0", 0)]


@pytest.mark.parametrize("keys", [[7], [500], [7, 500, 8], [500, 501, 502, 503], []])
async def test_missing_rows_can_be_kept_with_their_keys(client, keys):
    table = await keyed(client, many(100))
    lookups = TableLookups(client.cluster, table)

    found = await lookups.lookup(keys_of(table, *keys), columns=["score", "id"], keep_missing=True)

    assert tuples(found) == [(0 if key < 100 else None, key) for key in keys]


async def test_many_keys_are_looked_up_in_several_requests(client, server):
    table = await keyed(client, many(5000))
    async with writing_client(server.port, lookup_keys_max=700) as other:
        keys = np.random.default_rng(3).permutation(6000).tolist()
        table = await other.cluster.table(table.path)

        found = await TableLookups(other.cluster, table).lookup(keys_of(table, *keys))

    assert tuples(found) == [(key, f"n{key}", 0) for key in keys if key < 5000]


async def test_rows_of_partitions_are_found_and_missing_partitions_have_none(client):
    table = await client.create(DAYS, key=["day", "id"], partition=["day"], buckets=2)
    rows = [("mon", 1, 10), ("tue", 1, 20), ("tue", 2, 30)]
    await client.upserter(table).upsert([batch_of(table, *rows)])
    lookups = TableLookups(client.cluster, table)

    found = await lookups.lookup(keys_of(table, ("tue", 2), ("sun", 1), ("mon", 1)))

    assert tuples(found) == [("tue", 2, 30), ("mon", 1, 10)]


async def test_missing_rows_are_inserted_where_that_is_asked_for(client):
    table = await client.create(NUMBERED, key=["name"], numbered=["number"], buckets=2)
    lookups = TableLookups(client.cluster, table)

    first = await lookups.lookup(keys_of(table, "a", "b", "c"), insert_missing=True)
    again = await lookups.lookup(keys_of(table, "c", "a"), insert_missing=True)

    numbers = dict(tuples(first))
    assert len(set(numbers.values())) == 3
    assert tuples(again) == [("c", numbers["c"]), ("a", numbers["a"])]


async def test_rows_are_found_by_the_start_of_their_key(client):
    table = await client.create(KINDS, key=["kind", "id"], bucket_key=["kind"], buckets=3)
    rows = [(kind, number, 0) for kind in "abc" for number in range(4)]
    await client.upserter(table).upsert([batch_of(table, *rows)])
    lookups = TableLookups(client.cluster, table)

    found = await lookups.prefix_lookup(batch_of(table, ("c",), ("z",), ("a",), columns=["kind"]))

    kinds = [row[0] for row in tuples(found)]
    assert kinds == ["c"] * 4 + ["a"] * 4
    assert set(tuples(found)) == {row for row in rows if row[0] != "b"}


@pytest.mark.parametrize("names", [["id"], ["score"], []])
async def test_a_prefix_without_the_bucket_key_is_refused(client, names):
    table = await client.create(KINDS, key=["kind", "id"], bucket_key=["kind"])
    lookups = TableLookups(client.cluster, table)
    prefix = batch_of(table, tuple(1 for _ in names), columns=names)

    with pytest.raises(RequestError, match="cannot be found by"):
        await lookups.prefix_lookup(prefix)


async def test_a_lookup_without_a_key_column_is_refused(client):
    table = await keyed(client, many(1))

    with pytest.raises(RequestError, match="no column 'id'"):
        await TableLookups(client.cluster, table).lookup(batch_of(table, ("a",), columns=["name"]))
