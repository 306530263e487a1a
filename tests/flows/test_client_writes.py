"""The writing half of the client against a real server."""

import asyncio

import pytest
import pytest_asyncio

from headwater.cluster.admin import Admin
from headwater.errors import (
    ClosedError,
    DeletionDisabledError,
    InvalidTargetColumnError,
    PartitionMissingError,
    TableMissingError,
)
from headwater.write.receipts import BucketReceipt
from tests.flows.client_writing import batch_of, logged, rows_in, state_of, writing_client

LOG = {"id": "INTEGER", "name": "STRING"}
KEYED = {"id": "INTEGER", "name": "STRING", "score": "BIGINT"}


@pytest_asyncio.fixture
async def client(server):
    async with writing_client(server.port) as client:
        yield client


async def test_appended_rows_are_there_in_order(client, server):
    table = await client.create(LOG)
    appender = client.appender(table)

    first = await appender.append([batch_of(table, (1, "a"), (2, None)), batch_of(table, (3, "c"))])
    second = await appender.append([batch_of(table, (4, "d"))])

    assert await rows_in(server.port, table) == [[(1, "a"), (2, None), (3, "c"), (4, "d")]]
    assert (first.rows, first.buckets) == (3, (BucketReceipt(None, 0, 3, 3),))
    assert second.buckets == (BucketReceipt(None, 0, 1, 4),)


async def test_nothing_appended_is_nothing_written(client, server):
    table = await client.create(LOG)

    receipt = await client.appender(table).append([batch_of(table)])

    assert (receipt.rows, receipt.buckets) == (0, ())


@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("compression", ["NONE", "LZ4_FRAME", "ZSTD"])
async def test_large_appends_are_cut_and_compressed(server, acks, compression):
    rows = [(number, f"row {number}") for number in range(20_000)]
    async with writing_client(server.port, acks=acks, batch_bytes_max=50_000) as client:
        table = await client.create(
            LOG, properties={"table.log.arrow.compression.type": compression}
        )

        receipt = await client.appender(table).append([batch_of(table, *rows)])
        await client.appender(table).append([batch_of(table, (-1, "last"))])
        (held,) = await rows_in(server.port, table)

    assert receipt.buckets == (BucketReceipt(None, 0, 20_000, 20_000),)
    assert held[:-1] == rows if acks == -1 else rows[: len(held)] == held[:20_000]


async def test_rows_with_a_bucket_key_meet_in_one_bucket(client, server):
    table = await client.create(LOG, bucket_key=["id"], buckets=4)
    rows = [(number % 10, f"{number}") for number in range(100)]

    receipt = await client.appender(table).append([batch_of(table, *rows)])

    held = await rows_in(server.port, table)
    ids = [{row[0] for row in bucket} for bucket in held]
    assert sum(map(len, ids)) == 10
    assert sorted(row for bucket in held for row in bucket) == sorted(rows)
    assert [each.rows for each in receipt.buckets] == [len(bucket) for bucket in held if bucket]


async def test_rows_without_a_bucket_key_take_turns(client, server):
    table = await client.create(LOG, buckets=3)
    appender = client.appender(table)

    for number in range(6):
        await appender.append([batch_of(table, (number, "x"))])

    assert [len(bucket) for bucket in await rows_in(server.port, table)] == [2, 2, 2]


async def test_statistics_are_sent_where_a_table_wants_them(client, server):
    table = await client.create(LOG, properties={"table.statistics.columns": "*"})

    await client.appender(table).append([batch_of(table, (1, "a"), (2, None))])

    assert await rows_in(server.port, table) == [[(1, "a"), (2, None)]]


async def test_rows_are_upserted_and_deleted(client, server):
    table = await client.create(KEYED, key=["id"], buckets=3)
    upserter = client.upserter(table)

    await upserter.upsert([batch_of(table, *((number, "a", number) for number in range(50)))])
    await upserter.upsert([batch_of(table, (7, "b", 1), (7, "c", 2))])
    gone = await upserter.delete([batch_of(table, *((n,) for n in range(10, 50)), columns=["id"])])

    expected = {(number, "a", number) for number in range(10)} - {(7, "a", 7)} | {(7, "c", 2)}
    assert await state_of(server.port, table) == expected
    assert gone.rows == 40


async def test_a_partial_update_leaves_the_other_columns(client, server):
    table = await client.create(KEYED, key=["id"])
    upserter = client.upserter(table)
    await upserter.upsert([batch_of(table, (1, "a", 10))])

    columns = ["score", "id"]
    batch = batch_of(table, (11, 1), (12, 2), columns=columns)
    await upserter.upsert([batch], columns=columns)

    assert await state_of(server.port, table) == {(1, "a", 11), (2, None, 12)}


async def test_a_partial_update_needs_the_key(client):
    table = await client.create(KEYED, key=["id"])
    batch = batch_of(table, (11,), columns=["score"])

    with pytest.raises(InvalidTargetColumnError, match="leave out 'id'"):
        await client.upserter(table).upsert([batch], columns=["score"])


async def test_numbered_columns_are_left_to_the_server(client, server):
    table = await client.create(
        {"name": "STRING", "number": "BIGINT"}, key=["name"], numbered=["number"]
    )
    upserter = client.upserter(table)

    await upserter.upsert([batch_of(table, ("a",), ("b",), columns=["name"])])

    assert await state_of(server.port, table) == {("a", 1), ("b", 2)}
    with pytest.raises(InvalidTargetColumnError, match="numbered"):
        await upserter.upsert([batch_of(table, ("c", 7))])


async def test_partitions_are_made_for_the_rows_that_come(client, server):
    table = await client.create(KEYED, key=["id", "name"], partition=["name"], buckets=2)
    upserter = client.upserter(table)
    rows = [(1, "x", 1), (2, "y", 2), (3, "x", 3)]

    receipt = await upserter.upsert([batch_of(table, *rows)])
    await upserter.delete([batch_of(table, (1, "x"), (9, "never"), columns=["id", "name"])])

    partitions = await client.partitions(table)
    assert sorted(partitions) == ["x", "y"]
    assert {each.partition for each in receipt.buckets} == {"x", "y"}
    held = [await state_of(server.port, table, partition_id=each) for each in partitions.values()]
    assert set().union(*held) == {(2, "y", 2), (3, "x", 3)}


async def test_clients_may_race_to_make_a_partition(server, client):
    table = await client.create(LOG, partition=["name"])
    async with writing_client(server.port) as other:
        appends = [
            each.appender(table).append([batch_of(table, (number, "new"))])
            for number, each in enumerate([client, other] * 5)
        ]
        await asyncio.gather(*appends)

    ((_, partition_id),) = (await client.partitions(table)).items()
    (held,) = await rows_in(server.port, table, partition_id=partition_id)
    assert sorted(held) == [(number, "new") for number in range(10)]


async def test_partitions_are_not_made_where_the_settings_say_so(server):
    async with writing_client(server.port, creates_partitions=False) as client:
        table = await client.create(LOG, partition=["name"])

        with pytest.raises(PartitionMissingError):
            await client.appender(table).append([batch_of(table, (1, "new"))])


async def test_a_partition_that_was_dropped_is_made_again(client, server):
    table = await client.create(LOG, partition=["name"])
    appender = client.appender(table)
    await appender.append([batch_of(table, (1, "p"))])
    async with writing_client(server.port) as other:
        await Admin(other.cluster).drop_partition(table, {"name": "p"}, missing_ok=False)

    with pytest.raises(PartitionMissingError):
        await appender.append([batch_of(table, (2, "p"))])
    await appender.append([batch_of(table, (3, "p"))])

    ((_, partition_id),) = (await client.partitions(table)).items()
    assert await rows_in(server.port, table, partition_id=partition_id) == [[(3, "p")]]


async def test_writes_to_a_dropped_table_fail_at_once(client):
    table = await client.create(LOG)
    appender = client.appender(table)
    await appender.append([batch_of(table, (1, "a"))])
    await Admin(client.cluster).drop_table(table.path, missing_ok=False)

    with pytest.raises(TableMissingError):
        await appender.append([batch_of(table, (2, "b"))])


async def test_submitted_rows_are_joined_and_keep_their_order(client, server):
    table = await client.create(LOG)
    appender = client.appender(table)

    for number in range(2000):
        await appender.submit(batch_of(table, (number, "x")))
    receipt = await appender.flush()

    assert receipt.rows == 2000
    assert await rows_in(server.port, table) == [[(number, "x") for number in range(2000)]]


async def test_submitted_upserts_and_deletes_keep_their_order(client, server):
    table = await client.create(KEYED, key=["id"], buckets=2)
    upserter = client.upserter(table)

    for number in range(100):
        await upserter.submit(batch_of(table, (number % 7, "a", number)))
        await upserter.submit_delete(batch_of(table, (number % 5,), columns=["id"]))
        await upserter.submit(
            batch_of(table, (6, number), columns=["id", "score"]), columns=["id", "score"]
        )
    await upserter.flush()

    expected = {(0, "a", 98), (1, "a", 99), (5, "a", 96), (6, "a", 99)}
    assert await state_of(server.port, table) == expected


async def test_a_refused_delete_does_not_take_others_with_it(client, server):
    table = await client.create(KEYED, key=["id"], properties={"table.delete.behavior": "disable"})
    upserter = client.upserter(table)

    for number in range(20):
        await upserter.submit(batch_of(table, (number, "a", number)))
    await upserter.submit_delete(batch_of(table, (3,), columns=["id"]))
    await upserter.submit(batch_of(table, (20, "a", 20)))

    with pytest.raises(DeletionDisabledError, match="21 of 22 rows"):
        await upserter.flush()
    assert await state_of(server.port, table) == {(number, "a", number) for number in range(21)}


async def test_many_callers_share_batches(client, server):
    table = await client.create(LOG, bucket_key=["id"], buckets=2)
    appender = client.appender(table)

    await asyncio.gather(*(appender.append([batch_of(table, (n, "x"))]) for n in range(500)))

    held = await rows_in(server.port, table)
    assert sorted(row[0] for bucket in held for row in bucket) == list(range(500))


async def test_a_caller_that_gives_up_disturbs_nobody(client, server):
    table = await client.create(LOG)
    appender = client.appender(table)
    rows = [batch_of(table, *((number, "x" * 100) for number in range(5000)))] * 10

    impatient = asyncio.ensure_future(appender.append(rows))
    await asyncio.wait([impatient], timeout=0.01)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    await appender.append([batch_of(table, (-1, "last"))])

    (held,) = await rows_in(server.port, table)
    assert held[-1] == (-1, "last")
    assert len(held) % 5000 <= 5000


async def test_more_rows_than_fit_in_memory_wait_their_turn(server):
    rows = [(number, "x" * 100) for number in range(1000)]
    limits = {"pending_bytes_max": 20_000, "batch_bytes_max": 10_000}
    async with writing_client(server.port, **limits) as client:
        table = await client.create(LOG)
        appender = client.appender(table)

        await asyncio.gather(*(appender.append([batch_of(table, *rows)]) for _ in range(5)))

        (held,) = await rows_in(server.port, table)
    assert len(held) == 5000


async def test_a_closed_client_has_written_everything_and_takes_no_more(server, client):
    async with writing_client(server.port) as closing:
        table = await closing.create(LOG)
        appender = closing.appender(table)
        writing = asyncio.ensure_future(appender.append([batch_of(table, (1, "a"))]))
        await asyncio.wait([writing], timeout=0)

    await writing
    with pytest.raises(ClosedError):
        await appender.append([batch_of(table, (2, "b"))])
    assert await logged(server.port, table) == [("APPEND", (1, "a"))]
