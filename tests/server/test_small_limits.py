"""Servers with little memory: limits that fit, answers that wait their turn, and refusals."""

import asyncio
import random
import socket
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.aio import connect
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings, limit_named, limits_for
from headwater.errors import InvalidOptionError, RetryLaterError
from headwater.kv.index import LOAD_MAX, SLOTS_MIN
from headwater.server.memory import LOOKS_MAX, SHRUNK_BYTES_MIN, Answers, Memory
from headwater.wire.apis import ApiKey
from tests.clocks import InstantClock
from tests.server.support import HOST, KIB, encoded, fetch_request, running

MIB = KIB * KIB
GIB = KIB * MIB
BUDGETS = (
    "total_request_bytes_max",
    "decoded_bytes_max",
    "total_response_bytes_max",
    "kv_scanner_bytes_max",
)


def test_limits_fit_into_the_memory_there_is():
    for memory in (256 * MIB, 512 * MIB, GIB, 2 * GIB, 64 * GIB):
        limits = limits_for(memory)

        settings = ServerSettings(**limits)

        assert sum(limits[name] for name in BUDGETS) < memory * 2 / 3
        assert settings.batch_bytes_max <= settings.request_bytes_max
        assert settings.request_bytes_max <= settings.total_request_bytes_max
        assert settings.response_bytes_max <= settings.total_response_bytes_max


def test_with_much_memory_the_limits_are_the_usual_ones():
    fitted = ServerSettings(**limits_for(8 * GIB))

    assert replace(fitted, memory_bytes_max=0) == ServerSettings()


def test_a_limit_is_given_by_its_name():
    assert limit_named("request_bytes_max", "16 mb") == 16 * MIB
    assert limit_named("connections_max", "7") == 7
    for name, value in (("port", "1"), ("nonsense", "1"), ("request_bytes_max", "much")):
        with pytest.raises(InvalidOptionError):
            limit_named(name, value)


def answers(total: int, *, taken=lambda: 0) -> Answers:
    clock = InstantClock()
    return Answers(total, Memory(0, clock, taken=taken), clock)


async def test_an_answer_takes_what_is_left_and_is_smaller_for_it():
    given = answers(10 * MIB)

    async with given.room(8 * MIB) as first, given.room(8 * MIB) as second:
        assert (first, second) == (8 * MIB, 2 * MIB)
    async with given.room(8 * MIB) as again:
        assert again == 8 * MIB


async def test_answers_that_nobody_takes_make_the_slowest_go_and_then_requests_wait():
    given, stuck = answers(10 * MIB), [4 * MIB, 6 * MIB]
    given.unsent = lambda: sum(stuck)
    given.drop_slowest = lambda: bool(stuck and stuck.pop())
    async with given.room(10 * MIB):
        pass  # which clients have not taken

    async with given.room(8 * MIB) as granted:
        assert granted == SHRUNK_BYTES_MIN
    async with given.room(8 * MIB) as granted:
        assert granted == 6 * MIB
    given.unsent, given.drop_slowest = (lambda: 10 * MIB), (lambda: False)
    with pytest.raises(RetryLaterError):
        async with given.room(8 * MIB):
            pass
    async with given.room(8 * MIB, at_any_cost=True) as granted:
        assert granted == SHRUNK_BYTES_MIN
    assert len(given._clock.slept) == 3 * LOOKS_MAX


def test_large_work_is_refused_while_memory_is_almost_all_taken():
    clock, taken = InstantClock(), [100]
    memory = Memory(1000, clock, taken=lambda: taken[0])

    memory.check()
    taken[0] = 900
    clock.now_s += 1
    with pytest.raises(RetryLaterError, match="memory"):
        memory.check()
    taken[0] = 800
    clock.now_s += 1
    memory.check()
    Memory(0, clock, taken=lambda: 10**12).check()


def test_an_index_that_would_take_what_memory_is_left_is_refused_and_a_smaller_one_is_not():
    clock = InstantClock()
    memory = Memory(1000, clock, taken=lambda: 400)

    memory.check_index(400)
    with pytest.raises(RetryLaterError, match="index of the keys"):
        memory.check_index(500)
    Memory(0, clock, taken=lambda: 400).check_index(10**15)


@pytest.mark.parametrize("together", [True, False])
async def test_new_keys_beyond_memory_are_refused_and_held_ones_are_written(tmp_path, together):
    impatient = ClientSettings(deadline_s=2.0)
    async with (
        running(tmp_path, memory_bytes_max=MIB) as server,
        await connect(f"{HOST}:{server.port}") as client,
        await connect(f"{HOST}:{server.port}", settings=impatient) as other,
    ):
        stock = await client.create_table(
            "stock", {"id": "bigint", "n": "bigint"}, primary_key="id", buckets=1
        )
        held = int(SLOTS_MIN * LOAD_MAX)
        await stock.upsert([{"id": each, "n": 0} for each in range(held)])
        others = [{"id": each, "n": 1} for each in range(held, held + 1 + together * 9)]

        with pytest.raises(RetryLaterError, match="index of the keys"):
            await (await other.table("stock")).upsert(others)
        await stock.upsert([{"id": each, "n": 2} for each in range(held)])
        await stock.delete([{"id": 0}])

        assert await stock.count() == held - 1
        assert await stock.get(others[0]["id"]) is None


async def test_an_index_of_keys_grows_beside_the_loop_however_small_the_write_is(tmp_path):
    loop_thread, grew_in = threading.get_ident(), []
    async with running(tmp_path) as server, await connect(f"{HOST}:{server.port}") as client:
        stock = await client.create_table("stock", {"id": "bigint"}, primary_key="id", buckets=1)
        await stock.upsert([{"id": each} for each in range(int(SLOTS_MIN * LOAD_MAX))])
        ((_, keyed),) = server.tablets.keyed.all_open()
        build = keyed.tablet.state.index._build

        def noted(*given, **named):
            grew_in.append(threading.get_ident())
            build(*given, **named)

        keyed.tablet.state.index._build = noted
        await stock.upsert([{"id": -1}])
        await stock.upsert([{"id": each} for each in range(-9, -1)])

        assert len(grew_in) == 1
        assert loop_thread not in grew_in
        assert await stock.count() == int(SLOTS_MIN * LOAD_MAX) + 9


async def test_a_server_with_tiny_limits_refuses_and_clients_go_on_by_themselves(tmp_path):
    luck = random.Random(7)  # what compresses well is no large request
    texts = [luck.randbytes(30).hex() for _ in range(20_000)]
    rows = pa.table({"id": pa.array(range(20_000), pa.int64()), "text": texts})
    tiny = {"total_response_bytes_max": 2 * MIB, "response_bytes_max": MIB}
    async with (
        running(tmp_path, **tiny, memory_bytes_max=100 * GIB) as server,
        await connect(f"{HOST}:{server.port}", settings=ClientSettings(deadline_s=60.0)) as client,
    ):
        log = await client.create_table("log", {"id": "bigint", "text": "string"})
        for _ in range(3):
            await log.append(rows)
        slow = [_asks_and_reads_nothing(server.port, log.info.table_id) for _ in range(5)]
        refusals = server._services.tallies.requests.errors
        key = (ApiKey.PRODUCE_LOG, RetryLaterError.code)
        # All memory is taken until somebody was told so.
        memory = server._services.answers.memory
        memory._measure = lambda: 0 if refusals[key] else 10**15
        memory._measured_at = -1.0

        await log.append(rows)
        counts = await asyncio.gather(*(_scanned(log) for _ in range(3)))

        assert counts == [80_000] * 3
        assert refusals[key] > 0
        for each in slow:
            each.close()


def _asks_and_reads_nothing(port: int, table_id: int) -> socket.socket:
    client = socket.create_connection((HOST, port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * KIB)
    client.sendall(encoded(fetch_request(table_id), ApiKey.FETCH_LOG) * 5)
    return client


async def _scanned(table) -> int:
    return sum([len(batch) async for batch in table.scan().batches()])
