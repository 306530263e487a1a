"""One connection, against servers that answer, go silent, lie or vanish."""

import asyncio
import struct
from contextlib import asynccontextmanager, suppress

import pytest

from headwater.cluster.links import TcpConnection
from headwater.errors import DisconnectedError, TableMissingError, UnsupportedError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS, ApiKey
from tests.cases import cases
from tests.clocks import loop_turns

LIST = APIS[ApiKey.LIST_DATABASES]


def answer(kind, request_id, body):
    return struct.pack(">iBi", 5 + len(body), kind, request_id) + body


def versions(*keys):
    listed = [pb.ApiVersion(api_key=key, min_version=0, max_version=0) for key in keys]
    return pb.ApiVersionsResponse(api_versions=listed).SerializeToString()


@asynccontextmanager
async def peer(behave, *keys):
    """Run a server that greets, then does what it is told with each further request."""

    ended = asyncio.Event()

    async def serve(reader, writer):
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                body = await reader.readexactly(length)
                key, _, request_id = struct.unpack_from(">hhi", body)
                if key == ApiKey.API_VERSIONS:
                    writer.write(answer(0, request_id, versions(*keys)))
                else:
                    await behave(writer, request_id)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = await TcpConnection.open(*server.sockets[0].getsockname()[:2], timeout_s=5.0)
    try:
        yield connection
    finally:
        await connection.close()
        await ended.wait()
        server.close()
        await server.wait_closed()


def databases(*names):
    return pb.ListDatabasesResponse(database_name=names).SerializeToString()


async def ask(connection, timeout_s=5.0):
    body = await connection.exchange(LIST, [b""], timeout_s=timeout_s)
    return list(pb.ListDatabasesResponse.FromString(bytes(body)).database_name)


async def test_answers_find_their_requests_in_any_order():
    waiting = []

    async def swap(writer, request_id):
        waiting.append(request_id)
        if len(waiting) == 2:
            writer.write(answer(0, waiting[1], databases("second")))
            writer.write(answer(0, waiting[0], databases("first")))

    async with peer(swap, LIST.key) as connection:
        answers = await asyncio.gather(ask(connection), ask(connection))

    assert answers == [["first"], ["second"]]


async def test_an_error_frame_is_raised_as_its_class():
    async def refuse(writer, request_id):
        fault = pb.ErrorResponse(error_code=7, error_message="There is no table t.")
        writer.write(answer(1, request_id, fault.SerializeToString()))

    async with peer(refuse, LIST.key) as connection:
        with pytest.raises(TableMissingError, match="no table t"):
            await ask(connection)

        assert connection.is_open


async def test_a_silent_server_is_given_up_after_the_timeout():
    async def say_nothing(writer, request_id):
        return

    async with peer(say_nothing, LIST.key) as connection:
        with pytest.raises(DisconnectedError, match=r"within 0\.05 s"):
            await ask(connection, timeout_s=0.05)

        assert not connection.is_open


async def test_a_slow_answer_does_not_end_a_connection_that_answers_others():
    seen = []

    async def answer_all_but_the_first(writer, request_id):
        seen.append(request_id)
        if len(seen) > 1:
            writer.write(answer(0, request_id, databases("later")))

    async with peer(answer_all_but_the_first, LIST.key) as connection:
        slow = asyncio.create_task(ask(connection, timeout_s=0.2))
        await loop_turns()
        await ask(connection)
        with pytest.raises(DisconnectedError, match="did not answer"):
            await slow

        assert await ask(connection) == ["later"]


async def test_everything_in_flight_fails_when_the_server_goes():
    async def hang_up(writer, request_id):
        writer.close()

    async with peer(hang_up, LIST.key) as connection:
        faults = await asyncio.gather(ask(connection), ask(connection), return_exceptions=True)

        assert [type(fault) for fault in faults] == [DisconnectedError, DisconnectedError]
        with pytest.raises(DisconnectedError):
            await ask(connection)


@cases("garbage", [b"\xff\xff\xff\xff", b"\0\0\0\5\7aaaa", b"\0\0\0\0"])
async def test_what_is_no_answer_ends_the_connection(garbage):
    async def babble(writer, request_id):
        writer.write(garbage)

    async with peer(babble, LIST.key) as connection:
        with pytest.raises(DisconnectedError, match="invalid response"):
            await ask(connection)


async def test_a_feature_that_the_server_lacks_is_told_before_anything_is_sent():
    async def fail(writer, request_id):
        raise AssertionError

    async with peer(fail) as connection:
        with pytest.raises(UnsupportedError, match="does not support LIST_DATABASES"):
            await ask(connection)


async def test_a_large_answer_arrives_whole():
    names = [f"database_{number}" for number in range(50_000)]

    async def answer_much(writer, request_id):
        writer.write(answer(0, request_id, databases(*names)))

    async with peer(answer_much, LIST.key) as connection:
        assert await ask(connection) == names


async def test_a_port_where_nobody_listens_is_told():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    with pytest.raises(DisconnectedError, match=f"Cannot reach 127.0.0.1:{port}: "):
        await TcpConnection.open("127.0.0.1", port)


@cases(("served", "sent"), [(0, 0), (1, 1), (7, 1)])
async def test_the_newest_version_that_both_know_is_spoken(served, sent):
    lookup, spoken = APIS[ApiKey.LOOKUP], []

    async def serve(reader, writer):
        with suppress(asyncio.IncompleteReadError):
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                key, version, request_id = struct.unpack_from(
                    ">hhi", await reader.readexactly(length)
                )
                spoken.append((key, version))
                listed = [pb.ApiVersion(api_key=lookup.key, min_version=0, max_version=served)]
                body = pb.ApiVersionsResponse(api_versions=listed).SerializeToString()
                writer.write(answer(0, request_id, body))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = await TcpConnection.open(*server.sockets[0].getsockname()[:2], timeout_s=5.0)
    await connection.exchange(lookup, [b""], timeout_s=5.0)
    await connection.close()
    server.close()
    await server.wait_closed()

    assert spoken[-1] == (lookup.key, sent)
