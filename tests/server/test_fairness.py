"""A lookup beside clients that write and read in bulk waits for one batch of each at most.

Counted, not timed: bulk clients have their requests in the kernel before the lookup is sent, and
the units of work are counted that the server does until the lookup is answered.
"""

import socket
from collections.abc import Callable

import pytest

from headwater.server.server import Server
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from tests.clocks import loop_turns
from tests.flows.appending import batch_of, produce, table_json
from tests.flows.upserting import Rows
from tests.server.support import (
    HOST,
    append,
    connected,
    create_table,
    encoded,
    fetch_request,
    fill,
    running,
)

PIPED = 100
CLIENTS = 3
LOOKS_MAX = 200_000


def opened(server: Server) -> socket.socket:
    client = socket.create_connection((HOST, server.port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def has_answer(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1 << 16, socket.MSG_DONTWAIT | socket.MSG_PEEK))
    except BlockingIOError:
        return False


class Beside:
    """Send a lookup once others are at work, and count what they get before it is answered."""

    def __init__(self, server: Server, rows: Rows, units: Callable[[], int]) -> None:
        self._server, self._units = server, units
        bucket = pb.LookupBucketRequest(bucket_id=0, keys=rows.keys([1]))
        request = pb.LookupRequest(table_id=rows.table_id, buckets_req=[bucket])
        self._request = encoded(request, ApiKey.LOOKUP)

    async def count(self, bulk: bytes, *, clients: int = CLIENTS) -> int:
        others = [opened(self._server) for _ in range(clients)]
        looking = opened(self._server)
        try:
            await self._until(lambda: self._server.listener.connection_count > clients + 1)
            before = self._units()
            for each in others:
                each.sendall(bulk)
            await self._until(lambda: self._units() > before)
            sent_at = self._units()
            looking.sendall(self._request)
            await self._until(lambda: has_answer(looking))
            return self._units() - sent_at
        finally:
            for each in (*others, looking):
                each.close()

    async def _until(self, condition: Callable[[], bool]) -> None:
        for _ in range(LOOKS_MAX):
            if condition():
                return
            await loop_turns()
        raise AssertionError("the condition did not come true")


@pytest.fixture
async def server(tmp_path):
    async with running(tmp_path) as server:
        yield server


async def keyed(connection) -> Rows:
    rows = await Rows.create(connection)
    await rows.put((1, "one", 1))
    return rows


def written(server: Server, table_id: int) -> Callable[[], int]:
    """Count the rows in the logs of a table."""
    logs = [each.log for bucket, each in server.tablets.all_open() if bucket.table_id == table_id]
    return lambda: sum(log.end_offset for log in logs)


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_a_lookup_waits_for_one_batch_of_each_who_pipes_small_batches(server, acks):
    async with connected(server) as connection:
        rows, table_id = await keyed(connection), await create_table(connection)
        batch = produce(table_id, 0, batch_of([(0, 1)]), acks=acks)
        await append(connection, table_id)

        waited = await Beside(server, rows, written(server, table_id)).count(
            encoded(batch, ApiKey.PRODUCE_LOG) * PIPED
        )

        assert waited <= CLIENTS


async def test_a_lookup_waits_for_one_batch_of_each_who_writes_to_many_buckets(server):
    async with connected(server) as connection:
        rows = await keyed(connection)
        table_id = await create_table(connection, table_json(buckets=64))
        batches = [
            pb.ProduceLogBucketRequest(bucket_id=each, records=batch_of([(each, 1)]))
            for each in range(64)
        ]
        request = pb.ProduceLogRequest(
            acks=1, table_id=table_id, timeout_ms=30_000, buckets_req=batches
        )
        await connection.call(request, pb.ProduceLogResponse)

        waited = await Beside(server, rows, written(server, table_id)).count(
            encoded(request, ApiKey.PRODUCE_LOG)
        )

        assert waited <= CLIENTS


async def test_a_lookup_waits_for_one_batch_of_each_who_upserts(server):
    async with connected(server) as connection:
        rows = await keyed(connection)
        puts = [
            pb.PutKvRequest(
                acks=1,
                table_id=rows.table_id,
                timeout_ms=30_000,
                buckets_req=[pb.PutKvBucketRequest(bucket_id=0, records=rows.batch([new, other]))],
            )
            for new, other in (((2 * at, "a", at), (2 * at + 1, "b", at)) for at in range(5, 105))
        ]

        waited = await Beside(server, rows, written(server, rows.table_id)).count(
            b"".join(encoded(put, ApiKey.PUT_KV) for put in puts)
        )

        assert waited <= CLIENTS


async def test_a_lookup_waits_for_one_answer_of_each_who_fetches(server):
    async with connected(server) as connection:
        rows, table_id = await keyed(connection), await create_table(connection)
        await fill(connection, table_id, batches=5)
        fetches = server.tallies.requests.durations

        waited = await Beside(server, rows, lambda: fetches[ApiKey.FETCH_LOG].count).count(
            encoded(fetch_request(table_id), ApiKey.FETCH_LOG) * PIPED
        )

        assert waited <= CLIENTS
