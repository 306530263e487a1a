"""The reading half of the client against a real server: logs."""

import asyncio
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import pytest_asyncio

from headwater.cluster.admin import Admin
from headwater.errors import (
    InvalidProjectionError,
    OffsetOutOfRangeError,
    PartitionMissingError,
    RequestError,
    TimedOutError,
)
from headwater.model.types import BigIntType
from headwater.read.log_scan import LogScan
from headwater.read.offsets import Place, buckets_of, count_rows, list_offsets
from headwater.read.tail import Tail
from headwater.rows.log_batch import ChangeType
from tests.flows.client_writing import batch_of, writing_client
from tests.serving import ServerProcess

LOG = {"id": "INTEGER", "name": "STRING", "amount": "BIGINT"}
DAYS = {"id": "INTEGER", "day": "STRING"}
COUNTED = {"table.statistics.columns": "*"}


@pytest_asyncio.fixture
async def client(server):
    async with writing_client(server.port, batch_rows_max=100) as client:
        yield client


def many(start, end):
    return [(number, f"n{number % 7}", number * 10) for number in range(start, end)]


async def rows_of(scan) -> list[tuple]:
    found: list[tuple] = []
    async for batch in scan:
        assert batch.schema == scan.schema
        found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return found


async def polled(tail, count) -> list[tuple]:
    """Poll until so many rows came."""
    found: list[tuple] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            for batch in await tail.poll(1.0):
                columns = [column.to_pylist() for column in batch.rows.columns]
                found += zip(batch.offsets.tolist(), *columns, strict=True)
    return found


# ---- scans


async def test_a_scan_finds_what_was_answered_before_it_though_nothing_was_durable_then(server):
    async with writing_client(server.port, acks=1) as client:
        table = await client.create(LOG, buckets=2)
        appender, places = client.appender(table), await buckets_of(client.cluster, table)
        for number in range(1, 21):
            await appender.append([batch_of(table, *many(number, number + 1))])

            assert len(await rows_of(LogScan(client.cluster, table))) == number
            assert await count_rows(client.cluster, table, buckets=places) == number


async def test_a_scan_returns_every_row_once(client):
    table = await client.create(LOG, buckets=3)
    await client.appender(table).append([batch_of(table, *many(0, 1000))])

    scan = LogScan(client.cluster, table)
    found = await rows_of(scan)

    assert sorted(found) == many(0, 1000)
    assert sum(scan.offsets.values()) == 1000


async def test_a_scan_of_an_empty_table_ends(client):
    table = await client.create(LOG, buckets=2)

    assert await rows_of(LogScan(client.cluster, table)) == []


async def test_a_scan_gives_the_columns_that_are_asked_for_in_that_order(client):
    table = await client.create(LOG)
    await client.appender(table).append([batch_of(table, *many(0, 10))])

    found = await rows_of(LogScan(client.cluster, table, columns=["amount", "id"]))

    assert found == [(number * 10, number) for number in range(10)]


@pytest.mark.parametrize("properties", [{}, COUNTED])
async def test_a_scan_filters_rows_by_columns_that_it_does_not_give(client, properties):
    table = await client.create(LOG, properties=properties)
    await client.appender(table).append([batch_of(table, *many(0, 1000))])

    scan = LogScan(client.cluster, table, columns=["name"], where=[("id", ">=", 995)])

    assert await rows_of(scan) == [(f"n{number % 7}",) for number in range(995, 1000)]


async def test_a_scan_of_which_the_server_sends_nothing_ends(client):
    table = await client.create(LOG, properties=COUNTED)
    await client.appender(table).append([batch_of(table, *many(0, 1000))])

    assert await rows_of(LogScan(client.cluster, table, where=[("id", "<", 0)])) == []


@pytest.mark.parametrize(("start", "end"), [(0, 250), (150, 151), (99, 100), (7, 993), (5, 5)])
async def test_a_scan_is_cut_to_its_offsets_in_the_midst_of_batches(client, start, end):
    table = await client.create(LOG)
    await client.appender(table).append([batch_of(table, *many(0, 1000))])

    found = await rows_of(LogScan(client.cluster, table, start={0: start}, end={0: end}))

    assert found == many(start, end)


@pytest.mark.parametrize("limit", [0, 1, 150, 5000])
async def test_a_limit_is_kept(client, limit):
    table = await client.create(LOG, buckets=2)
    await client.appender(table).append([batch_of(table, *many(0, 1000))])

    found = await rows_of(LogScan(client.cluster, table, limit=limit))

    assert len(found) == len(set(found)) == min(limit, 1000)


async def test_a_limit_counts_rows_that_pass_the_filter(client):
    table = await client.create(LOG)
    await client.appender(table).append([batch_of(table, *many(0, 1000))])

    found = await rows_of(LogScan(client.cluster, table, where=("id", ">=", 500), limit=20))

    assert found == many(500, 520)


async def test_a_scan_sees_columns_come_go_and_change_their_name(client):
    table = await client.create(LOG)
    admin = Admin(client.cluster)
    await client.appender(table).append([batch_of(table, (1, "a", 10))])
    await admin.add_column(table.path, "extra", data_type=BigIntType(), comment=None)
    await admin.rename_column(table.path, "name", new="title")
    table = await client.cluster.table(table.path)
    await client.appender(table).append([batch_of(table, (2, "b", 20, 200))])
    await admin.drop_column(table.path, "amount")
    table = await client.cluster.table(table.path)

    found = await rows_of(LogScan(client.cluster, table))
    some = await rows_of(LogScan(client.cluster, table, columns=["extra", "title"]))

    assert found == [(1, "a", None), (2, "b", 200)]
    assert some == [(None, "a"), (200, "b")]


async def test_a_reader_with_an_older_schema_reads_newer_rows(client):
    table = await client.create(LOG)
    await Admin(client.cluster).add_column(
        table.path, "extra", data_type=BigIntType(), comment=None
    )
    newer = await client.cluster.table(table.path)
    await client.appender(newer).append([batch_of(newer, (1, "a", 10, 100))])

    assert await rows_of(LogScan(client.cluster, table)) == [(1, "a", 10)]
    assert await rows_of(LogScan(client.cluster, table, columns=["amount"])) == [(10,)]


async def test_the_changelog_is_read_up_to_offsets_that_hold_no_record(client):
    table = await client.create({"id": "INTEGER", "n": "BIGINT"}, key=["id"])
    upserter = client.upserter(table)
    await upserter.upsert([batch_of(table, (1, 1))])
    await upserter.upsert([batch_of(table, (1, 2))])
    await upserter.delete([batch_of(table, (9,), columns=["id"])])

    scan = LogScan(client.cluster, table)
    found = [batch async for batch in scan.batches()]

    changes = np.concatenate([batch.changes for batch in found]).tolist()
    kinds = [ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER]
    assert changes == kinds
    assert scan.offsets == {Place(None, 0): 4}


async def test_a_scan_says_what_there_is_not(client):
    table = await client.create(LOG)

    with pytest.raises(InvalidProjectionError, match="no column 'nothing'"):
        LogScan(client.cluster, table, columns=["nothing"])
    with pytest.raises(RequestError, match="no bucket"):
        await rows_of(LogScan(client.cluster, table, start={4: 0}))
    with pytest.raises(OffsetOutOfRangeError, match="no offset 5"):
        await rows_of(LogScan(client.cluster, table, start={0: 5}, end={0: 9}))


async def test_a_scan_of_a_server_that_is_gone_does_not_hang(tmp_path):
    server = ServerProcess(tmp_path / "data")
    async with writing_client(server.port, deadline_s=1.0) as client:
        table = await client.create(LOG)
        await client.appender(table).append([batch_of(table, *many(0, 100))])
        server.kill()

        with pytest.raises(TimedOutError):
            await rows_of(LogScan(client.cluster, table))


# ---- tails


async def test_a_tail_gives_rows_as_they_come(client):
    table = await client.create(LOG)
    appender = client.appender(table)
    await appender.append([batch_of(table, *many(0, 5))])
    async with Tail(client.cluster, table, start="earliest") as tail:
        first = await polled(tail, 5)

        await appender.append([batch_of(table, *many(5, 8))])
        second = await polled(tail, 3)

        assert first + second == [(row[0], *row) for row in many(0, 8)]
        assert tail.position == {Place(None, 0): 8}


async def test_a_tail_from_the_latest_offset_leaves_out_what_was_there(client):
    table = await client.create(LOG)
    await client.appender(table).append([batch_of(table, *many(0, 5))])
    async with Tail(client.cluster, table, start="latest") as tail:
        assert await tail.poll(0.0) == []

        await client.appender(table).append([batch_of(table, *many(5, 6))])

        assert await polled(tail, 1) == [(5, *many(5, 6)[0])]


async def test_a_tail_starts_at_a_time(client):
    table = await client.create(LOG)
    await client.appender(table).append([batch_of(table, *many(0, 5))])
    async with Tail(client.cluster, table, start="earliest") as tail:
        written_ms = (await tail.poll(10))[0].timestamp_ms
    written = datetime.fromtimestamp(written_ms / 1000, UTC)
    buckets = await buckets_of(client.cluster, table)

    at = await list_offsets(client.cluster, table, written, buckets=buckets)
    before = await list_offsets(client.cluster, table, written - timedelta(days=1), buckets=buckets)

    assert at == before == {Place(None, 0): 0}
    with pytest.raises(RequestError, match="time zone"):
        await list_offsets(client.cluster, table, datetime(2024, 1, 1), buckets=buckets)


async def test_an_idle_tail_returns_in_time(client):
    table = await client.create(LOG)
    clock = client.cluster.clock
    async with Tail(client.cluster, table, start="earliest") as tail:
        began = clock.monotonic()

        assert await tail.poll(0.2) == []

        assert clock.monotonic() - began < 5


async def test_a_tail_seeks(client):
    table = await client.create(LOG)
    await client.appender(table).append([batch_of(table, *many(0, 300))])
    async with Tail(client.cluster, table, start="earliest", columns=["id"]) as tail:
        await polled(tail, 300)

        await tail.seek({Place(None, 0): 150})

        assert (await polled(tail, 150))[0] == (150, 150)
        with pytest.raises(RequestError, match="not followed"):
            await tail.seek({Place(None, 7): 0})


async def test_a_tail_that_is_assigned_buckets_follows_these_only(client):
    table = await client.create(LOG, buckets=3, bucket_key=["id"])
    await client.appender(table).append([batch_of(table, *many(0, 300))])
    async with Tail(client.cluster, table, start="earliest") as tail:
        await polled(tail, 300)
        held = dict(tail.position)
        first, second = Place(None, 0), Place(None, 1)

        await tail.assign({first: held[first], second: 0})
        again = await polled(tail, held[second])

        assert len(again) == held[second]
        assert tail.position == {first: held[first], second: held[second]}


async def test_a_cancelled_poll_loses_nothing(client):
    table = await client.create(LOG)
    await client.appender(table).append([batch_of(table, *many(0, 50_000))])
    async with Tail(client.cluster, table, start="earliest", columns=["id"]) as tail:
        found: list[int] = []
        while len(found) < 50_000:
            try:
                async with asyncio.timeout(0.004):
                    batches = await tail.poll(10)
            except TimeoutError:
                continue
            found += [each for batch in batches for each in batch.rows["id"].to_pylist()]

    assert found == list(range(50_000))


async def test_a_tail_outlives_its_server(tmp_path):
    server = ServerProcess(tmp_path / "data")
    async with writing_client(server.port) as client:
        table = await client.create(LOG)
        await client.appender(table).append([batch_of(table, *many(0, 10))])
        async with Tail(client.cluster, table, start="earliest") as tail:
            await polled(tail, 10)
            server.kill()
            assert await tail.poll(0.3) == []
            server = ServerProcess(tmp_path / "data", port=server.port)

            await client.appender(table).append([batch_of(table, *many(10, 20))])
            found = await polled(tail, 10)

    server.stop()
    assert found == [(row[0], *row) for row in many(10, 20)]


# ---- partitions


async def test_a_tail_finds_new_partitions_and_lets_go_of_dropped_ones(client):
    table = await client.create(DAYS, partition=["day"])
    admin, appender = Admin(client.cluster), client.appender(table)
    await appender.append([batch_of(table, (1, "mon"))])
    async with Tail(client.cluster, table, start="latest", discovery_s=0.05) as tail:
        assert await tail.poll(0.1) == []

        await appender.append([batch_of(table, (2, "tue"))])
        found = await polled(tail, 1)
        await admin.drop_partition(table, {"day": "mon"}, missing_ok=False)
        while Place("mon", 0) in tail.position:
            assert await tail.poll(0.05) == []

    assert found == [(0, 2, "tue")]


async def test_a_scan_reads_the_partitions_that_are_named(client):
    table = await client.create(DAYS, partition=["day"], buckets=2)
    rows = [(number, day) for number, day in enumerate(["mon", "tue", "wed"] * 10)]
    await client.appender(table).append([batch_of(table, *rows)])

    found = await rows_of(LogScan(client.cluster, table, partitions=["mon", "wed"]))

    assert sorted(found) == [row for row in rows if row[1] != "tue"]
    with pytest.raises(PartitionMissingError, match="mon, tue, wed"):
        await rows_of(LogScan(client.cluster, table, partitions=["sun"]))
    assert await count_rows(
        client.cluster, table, buckets=await buckets_of(client.cluster, table)
    ) == len(rows)
