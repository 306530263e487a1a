"""Answers on their way out: clients that do not read, and polls that wait for rows."""

import asyncio
import socket

from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from tests.flows.appending import batch_of, fetch, produce
from tests.server.support import (
    KIB,
    HeldSyncs,
    RawClient,
    append,
    connected,
    create_table,
    disk_with,
    encoded,
    fetch_request,
    is_served,
    running,
    until,
)

MIB = 1024 * KIB
ANSWER = 4 * MIB
HELD_MAX = 2 * ANSWER
FETCHES = 40


async def with_large_rows(server, *, batches=8):
    """Return a table of which one fetch takes an answer of the largest size."""
    async with connected(server) as connection:
        table_id = await create_table(connection)
        for _ in range(batches):
            assert not (await append(connection, table_id, rows=80_000)).error_code
    return table_id


async def stuck_client(server, table_id, *, fetches=FETCHES):
    """Return a client that asks for much and reads nothing, and the connection that serves it."""
    before = {each for each in server.listener._connections if each.stuck_since}
    client = await RawClient.open(server)
    client.send(encoded(fetch_request(table_id), ApiKey.FETCH_LOG) * fetches)
    stuck = set()

    def is_stuck():
        stuck.update(each for each in server.listener._connections if each.stuck_since)
        return len(stuck - before) == 1

    await until(is_stuck)
    (serving_it,) = stuck - before
    return client, serving_it


async def test_a_client_that_does_not_read_holds_about_one_answer_and_is_dropped(tmp_path):
    async with running(tmp_path, response_bytes_max=ANSWER) as server:
        table_id = await with_large_rows(server)
        client, connection = await stuck_client(server, table_id)

        served = await is_served(server)
        held = connection.unsent_bytes()
        await server.listener.sweep()
        kept_at_first = connection in server.listener._connections
        await server.listener.sweep()

        assert served
        assert 0 < held < HELD_MAX
        assert kept_at_first
        await until(lambda: connection not in server.listener._connections)
        assert await client.ended()
        assert server.listener.requests.used_bytes == 0


async def test_a_client_that_reads_slowly_is_not_dropped(tmp_path):
    async with running(tmp_path, response_bytes_max=ANSWER) as server:
        table_id = await with_large_rows(server)
        client, connection = await stuck_client(server, table_id, fetches=4)

        for _ in range(4):
            await server.listener.sweep()
            assert await client.answer_id() == 1

        assert connection in server.listener._connections
        await until(lambda: connection.unsent_bytes() == 0)


async def test_unread_answers_over_the_total_cost_the_slowest_client_its_connection(tmp_path):
    async with running(tmp_path, response_bytes_max=ANSWER, unsent_bytes_max=ANSWER) as server:
        table_id = await with_large_rows(server)

        clients = [await stuck_client(server, table_id) for _ in range(4)]

        (slowest, serving_slowest), (_, serving_latest) = clients[0], clients[-1]
        await until(lambda: serving_slowest not in server.listener._connections)
        assert await slowest.ended()
        assert serving_latest in server.listener._connections
        assert await is_served(server)


async def test_a_client_that_does_not_read_is_not_read_from_either(tmp_path):
    async with running(tmp_path, response_bytes_max=64 * KIB) as server:
        client = await RawClient.open(server)
        lists = encoded(
            pb.ApiVersionsRequest(client_software_name="x", client_software_version="0"),
            ApiKey.API_VERSIONS,
        )

        await until(lambda: bool(server.listener._connections))
        (connection,) = server.listener._connections
        # The kernel would take megabytes of such answers first.
        opened = connection._transport.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * KIB)

        for _ in range(100):
            client.send(lists * 1000)

        await until(lambda: connection.stuck_since is not None)
        assert await is_served(server)
        assert connection.unsent_bytes() < 4 * MIB
        client.abort()


async def test_limit_scans_wait_until_earlier_answers_are_read(tmp_path):
    async with running(tmp_path) as server:
        table_id = await with_large_rows(server, batches=2)
        client = await RawClient.open(server)
        await until(lambda: len(server.listener._connections) == 1)
        (connection,) = server.listener._connections
        request = pb.LimitScanRequest(table_id=table_id, bucket_id=0, limit=80_000)

        client.send(encoded(request, ApiKey.LIMIT_SCAN) * 50)

        await until(lambda: connection.stuck_since is not None)
        assert await is_served(server)
        assert connection.unsent_bytes() < 8 * MIB
        client.abort()


# ---- long polls


async def test_a_long_poll_is_answered_when_rows_become_durable_and_not_before(tmp_path):
    syncs = HeldSyncs("1/0/")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        # The first append to a log waits until it is noted who writes to it.
        await append(connection, table_id, rows=1)
        poll = asyncio.ensure_future(fetch(connection, table_id, 0, 1, wait_ms=20_000))
        await until(lambda: bool(server._services.polls))
        syncs.hold()
        written = asyncio.ensure_future(append(connection, table_id, rows=3))
        ((_, tablet),) = server._services.tablets.all_open()
        await until(lambda: tablet.log.end_offset == 4)

        early = await is_served(server) and poll.done()
        syncs.release()

        assert not early
        assert (await poll).high_watermark == 4
        assert not (await written).error_code


async def test_a_client_is_told_at_once_that_its_poll_has_come(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        (served,) = server.listener._connections
        told = []
        served.session.received = lambda: told.append(len(server._services.polls))
        await append(connection, table_id, rows=3)

        await fetch(connection, table_id, 0, 0, wait_ms=20_000)
        without_a_wait = list(told)
        poll = asyncio.ensure_future(fetch(connection, table_id, 0, 3, wait_ms=20_000))
        await until(lambda: bool(told))
        await append(connection, table_id, rows=1)

        assert not without_a_wait
        assert (await poll).high_watermark == 4


async def test_a_long_poll_without_rows_ends_at_its_time(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        started = asyncio.get_running_loop().time()

        answer = await fetch(connection, table_id, 0, 0, wait_ms=200)

        assert 0.15 < asyncio.get_running_loop().time() - started < 5
        assert (answer.error_code, answer.high_watermark, answer.records) == (0, 0, b"")
        assert not server._services.polls


async def test_a_long_poll_is_answered_at_once_when_the_server_stops(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        poll = asyncio.ensure_future(fetch(connection, table_id, 0, 0, wait_ms=60_000))
        await until(lambda: bool(server._services.polls))

        await server.stop()

        assert (await poll).error_code == 0


async def test_a_client_that_goes_away_ends_its_long_polls(tmp_path):
    async with running(tmp_path) as server:
        async with connected(server) as connection:
            table_id = await create_table(connection)
        client = await RawClient.open(server)
        client.send(encoded(fetch_request(table_id, wait_ms=60_000), ApiKey.FETCH_LOG) * 10)
        await until(lambda: len(server._services.polls) == 10)

        client.abort()

        await until(lambda: not server._services.polls)
        async with connected(server) as connection:
            answer = await connection.call(
                produce(table_id, 0, batch_of([(1, 1)])), pb.ProduceLogResponse
            )
        assert not answer.buckets_resp[0].error_code
