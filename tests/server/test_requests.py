"""Requests on their way in: room for large ones, frames that never end, many at a time."""

import asyncio
import itertools
from itertools import pairwise

import pytest

from headwater.config.server import MIB, ServerSettings
from headwater.server.connection import REQUESTS_PER_TURN, Connection
from headwater.server.memory import Budget
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.frames import SMALL_FRAME_BYTES_MAX, ResponseKind
from tests.clocks import loop_turns
from tests.flows.appending import batch_of, fetch, produce
from tests.server.support import (
    KIB,
    FakeClock,
    HeldSyncs,
    RawClient,
    append,
    connected,
    create_table,
    disk_with,
    encoded,
    fetch_request,
    is_served,
    padded_request,
    running,
    until,
)

ROOM = 200 * KIB
LARGE = 150 * KIB
FIRST_BUCKET = "1/0/"


class Silent:
    """Be told of connections, and do nothing."""

    def opened(self, connection):
        pass

    def closed(self, connection):
        pass

    def unsent_grew(self):
        pass


SILENT = Silent()


def used(server):
    return server.listener.requests.used_bytes


def begun(size=LARGE):
    return padded_request(size)[: size // 2]


async def test_large_requests_wait_for_room_and_proceed_in_turn(tmp_path):
    async with running(tmp_path, total_request_bytes_max=ROOM) as server:
        first, second, third = [await RawClient.open(server) for _ in range(3)]
        whole = padded_request(LARGE, request_id=7)
        first.send(whole[:-1])
        await until(lambda: used(server) == LARGE)
        second.send(whole)
        await until(lambda: len(server.listener.requests._waiting) == 1)
        third.send(whole)
        await until(lambda: len(server.listener.requests._waiting) == 2)
        answers = [asyncio.ensure_future(each.answer_id()) for each in (second, third)]

        held_back = await is_served(server) and not any(each.done() for each in answers)
        first.send(whole[-1:])

        assert held_back
        assert [await first.answer_id(), *await asyncio.gather(*answers)] == [7, 7, 7]
        await until(lambda: used(server) == 0)


async def test_a_client_that_goes_away_inside_a_large_frame_makes_room_for_the_next(tmp_path):
    async with running(tmp_path, total_request_bytes_max=ROOM) as server:
        gone, waiting = await RawClient.open(server), await RawClient.open(server)
        gone.send(begun())
        await until(lambda: used(server) == LARGE)
        waiting.send(padded_request(LARGE, request_id=3))
        await is_served(server)

        gone.abort()

        assert await waiting.answer_id() == 3
        await until(lambda: used(server) == 0)


@pytest.mark.parametrize("end", [RawClient.close, RawClient.abort])
@pytest.mark.parametrize("sent", [2, 6, 70 * KIB, LARGE - 1])
async def test_a_frame_without_an_end_gives_its_bytes_back(tmp_path, end, sent):
    async with running(tmp_path) as server:
        client = await RawClient.open(server)
        client.send(padded_request(KIB))
        await client.answer_id()
        client.send(padded_request(LARGE)[:sent])
        await is_served(server)

        end(client)

        await until(lambda: not server.listener._connections)
        assert used(server) == 0


async def test_a_client_that_goes_away_while_it_waits_for_room_gives_up_its_place(tmp_path):
    async with running(tmp_path, total_request_bytes_max=ROOM) as server:
        holder, gone, waiting = [await RawClient.open(server) for _ in range(3)]
        holder.send(begun())
        await until(lambda: used(server) == LARGE)
        gone.send(begun())
        await until(lambda: len(server.listener.requests._waiting) == 1)
        waiting.send(padded_request(LARGE, request_id=5))

        gone.abort()
        holder.abort()

        assert await waiting.answer_id() == 5
        await until(lambda: used(server) == 0)


async def test_a_client_that_is_dropped_while_it_waits_for_room_leaves_the_queue(tmp_path):
    async with running(tmp_path, total_request_bytes_max=ROOM) as server:
        holder = await RawClient.open(server)
        holder.send(begun())
        await until(lambda: used(server) == LARGE)
        others = set(server.listener._connections)
        waiting = await RawClient.open(server)
        waiting.send(begun())
        await until(lambda: len(server.listener.requests._waiting) == 1)

        (dropped,) = server.listener._connections - others
        dropped.abort("the test says so")
        assert await waiting.ended()
        holder.abort()

        await until(lambda: not server.listener._connections)
        assert used(server) == 0


async def test_a_client_that_goes_away_while_its_request_runs_gives_its_bytes_back(tmp_path):
    syncs = HeldSyncs(FIRST_BUCKET)
    async with running(tmp_path, disk=disk_with(syncs, tmp_path)) as server:
        async with connected(server) as connection:
            table_id = await create_table(connection)
            await fetch(connection, table_id, 0, 0)
        syncs.hold()
        client = await RawClient.open(server)
        records = batch_of([(1, number) for number in range(10_000)])
        client.send(encoded(produce(table_id, 0, records), ApiKey.PRODUCE_LOG))
        await until(lambda: used(server) > len(records))

        client.abort()

        await until(lambda: used(server) == 0)
        syncs.release()
        assert await is_served(server)


async def test_a_request_cancelled_before_its_first_step_gives_its_bytes_back(tmp_path):
    async with running(tmp_path) as server:
        client = await RawClient.open(server)
        await until(lambda: len(server.listener._connections) == 1)
        (connection,) = server.listener._connections
        frame = padded_request(KIB)
        connection.get_buffer(-1)[: len(frame)] = frame

        connection.buffer_updated(len(frame))
        connection.connection_lost(None)

        await until(lambda: used(server) == 0)
        client.abort()


async def test_a_frame_that_is_not_finished_in_time_is_cut_while_others_are_served(tmp_path):
    async with running(tmp_path, frame_timeout_s=0.2) as server:
        large, small = await RawClient.open(server), await RawClient.open(server)
        large.send(begun())
        small.send(padded_request(KIB)[:-1])

        served = await is_served(server)

        assert served
        assert await large.ended()
        assert await small.ended()
        await until(lambda: used(server) == 0)


async def test_an_idle_connection_is_not_cut(tmp_path):
    async with running(tmp_path, frame_timeout_s=0.1) as server:
        idle, late = await RawClient.open(server), await RawClient.open(server)
        idle.send(padded_request(KIB, request_id=1))
        await idle.answer_id()
        late.send(b"\0")
        await late.ended()

        idle.send(padded_request(KIB, request_id=2))

        assert await idle.answer_id() == 2


async def test_a_client_that_always_has_a_frame_on_its_way_is_not_cut(tmp_path):
    async with running(tmp_path, frame_timeout_s=0.3) as server:
        client, loop = await RawClient.open(server), asyncio.get_running_loop()
        frame, end = padded_request(KIB, request_id=9), loop.time() + 0.9
        client.send(frame[:100])

        while loop.time() < end:
            client.send(frame[100:] + frame[:100])
            assert await client.answer_id() == 9

        client.send(frame[100:])
        assert await client.answer_id() == 9


async def test_waiting_for_room_does_not_count_as_being_late(tmp_path):
    limits = {"total_request_bytes_max": ROOM, "frame_timeout_s": 0.2}
    syncs = HeldSyncs(FIRST_BUCKET)
    async with running(tmp_path, disk=disk_with(syncs, tmp_path), **limits) as server:
        async with connected(server) as connection:
            table_id = await create_table(connection)
            await fetch(connection, table_id, 0, 0)
        syncs.hold()
        holder, waiting, late = [await RawClient.open(server) for _ in range(3)]
        records = batch_of([(1, number) for number in range(10_000)])
        holder.send(encoded(produce(table_id, 0, records), ApiKey.PRODUCE_LOG, request_id=1))
        await until(lambda: used(server) > len(records))
        waiting.send(padded_request(LARGE, request_id=2))
        for _ in range(2):
            late.send(b"\0")
            await late.ended()
            late = await RawClient.open(server)

        syncs.release()

        assert [await holder.answer_id(), await waiting.answer_id()] == [1, 2]


async def test_more_connections_than_allowed_are_turned_away(tmp_path):
    async with running(tmp_path, connections_max=3) as server:
        kept = [await RawClient.open(server) for _ in range(3)]
        for client in kept:
            client.send(padded_request(KIB, request_id=4))
            await client.answer_id()

        turned_away = await RawClient.open(server)

        assert await turned_away.ended()
        kept[0].send(padded_request(KIB, request_id=4))
        assert await kept[0].answer_id() == 4
        kept[1].close()
        await until(lambda: len(server.listener._connections) == 2)
        assert await is_served(server)


async def test_thousands_of_small_requests_at_once_each_get_their_answer(tmp_path):
    count = 4000
    async with running(tmp_path) as server:
        client = await RawClient.open(server)
        requests = (
            encoded(pb.DatabaseExistsRequest(database_name="fluss"), ApiKey.DATABASE_EXISTS, number)
            for number in range(count)
        )

        client.send(b"".join(requests))

        answered = [await client.answer_id() for _ in range(count)]
        assert sorted(answered) == list(range(count))
        await until(lambda: used(server) == 0)


async def test_requests_over_the_limit_of_a_connection_wait_and_none_is_lost(tmp_path):
    most, count = 32, 3_000
    async with (
        running(tmp_path, connection_requests_max=most) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        client, poll = await RawClient.open(server), fetch_request(table_id, wait_ms=60_000)
        polls = server._services.polls

        client.send(b"".join(encoded(poll, ApiKey.FETCH_LOG, each) for each in range(count)))
        await until(lambda: len(polls) >= most)
        under_way = await is_served(server) and len(polls)
        held_bytes = used(server)
        await append(connection, table_id)

        assert under_way == most
        assert held_bytes < 3 * SMALL_FRAME_BYTES_MAX, "the socket was read on"
        assert sorted(await client.answer_ids(count)) == list(range(count))
        await until(lambda: used(server) == 0)


async def test_a_client_that_goes_away_with_requests_that_wait_gives_their_bytes_back(tmp_path):
    async with (
        running(tmp_path, connection_requests_max=1) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        client = await RawClient.open(server)
        client.send(encoded(fetch_request(table_id, wait_ms=60_000), ApiKey.FETCH_LOG) * 100)
        await until(lambda: used(server) > 0)

        client.abort()
        # Nobody reads from the socket meanwhile, so that only an answer shows that it is closed.
        await append(connection, table_id)

        await until(lambda: used(server) == 0)


async def test_a_burst_of_one_connection_begins_a_few_requests_in_each_turn_of_the_loop():
    begun = []

    async def serve(frame, session):
        begun.append(frame.request_id)
        return ResponseKind.ANSWER, []

    connection = Connection(
        serve, SILENT, requests=Budget(MIB), settings=ServerSettings(), clock=FakeClock()
    )
    sent = b"".join(padded_request(8, each) for each in range(10 * REQUESTS_PER_TURN))

    connection.get_buffer(0)[: len(sent)] = sent
    connection.buffer_updated(len(sent))
    counts = [0]
    while len(begun) < 10 * REQUESTS_PER_TURN:
        await loop_turns()
        counts.append(len(begun))

    assert max(after - before for before, after in pairwise(counts)) <= REQUESTS_PER_TURN
    assert begun == sorted(begun)


async def test_a_long_poll_does_not_hold_up_other_requests_of_its_connection(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        poll = asyncio.ensure_future(fetch(connection, table_id, 0, 0, wait_ms=20_000))

        for _ in itertools.repeat(None, 3):
            await connection.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)

        assert not poll.done()
        answer = await connection.call(
            produce(table_id, 0, batch_of([(1, 1)])), pb.ProduceLogResponse
        )
        assert not answer.buckets_resp[0].error_code
        assert (await poll).high_watermark == 1
