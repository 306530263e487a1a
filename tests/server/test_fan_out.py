"""Many readers of the same rows: one read for all, turns of the loop, and others before them."""

import asyncio
from itertools import pairwise

import pytest

from headwater import aio
from headwater.config.server import ServerSettings
from headwater.errors import StorageError
from headwater.rows import log_batch
from headwater.server import readers
from headwater.server.connection import Session
from headwater.server.readers import (
    CROWD_CLIENTS_MIN,
    FETCHES_PER_TURN,
    HOLD_S_MAX,
    KEPT_OVERHEAD_BYTES,
    KEPT_READ_BYTES_MAX,
    REST_S,
    SLICE_S,
    CrowdPace,
    FetchTurns,
    SharedReads,
)
from headwater.server.server import Server
from headwater.store.local import LocalDisk
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, ApiKey
from headwater.wire.fetch import EncodedBucket, decode_fetch_answer
from headwater.wire.frames import RequestFrame, ResponseKind
from tests.clocks import loop_turns
from tests.flows.appending import batch_of, produce
from tests.log.support import InterposedDisk
from tests.server.support import (
    KIB,
    RawClient,
    append,
    connected,
    create_table,
    encoded,
    fetch_request,
    fill,
    running,
    until,
)

TAILS = 50
LONG_MS = 60_000


def session() -> Session:
    async def writable() -> None:
        pass

    return Session("test", "", 0, writable)


async def served(server: Server, request, session: Session) -> memoryview:
    """Have a request answered without a socket."""
    api = API_OF_REQUEST[type(request)]
    body = memoryview(request.SerializeToString())
    kind, parts = await server.serve(RequestFrame(api.key, api.version_max, 1, body), session)
    assert kind is ResponseKind.ANSWER
    return memoryview(b"".join(parts))


class Crowd:
    """Hold tails that wait for rows of one bucket, each a client of its own."""

    def __init__(self, server: Server, table_id: int, count: int = TAILS) -> None:
        self._server, self._table_id = server, table_id
        self.sessions = [session() for _ in range(count)]
        self.offset = 0

    async def waiting(self) -> list["asyncio.Task[memoryview]"]:
        """Begin to wait for rows behind the last ones."""
        request = fetch_request(self._table_id, wait_ms=LONG_MS, offset=self.offset)
        tails = [
            asyncio.ensure_future(served(self._server, request, each)) for each in self.sessions
        ]
        await until(lambda: len(self._server._services.polls) == len(tails))
        await loop_turns()
        return tails


async def test_an_append_is_read_once_for_all_tails_that_wait_for_it(tmp_path):
    reads = []

    def count(operation, path):
        if operation == "read" and path.endswith(".log"):
            reads.append(path)

    disk = InterposedDisk(LocalDisk(tmp_path / "log"), before=count)
    async with running(tmp_path, disk=disk) as server, connected(server) as connection:
        crowd = Crowd(server, await create_table(connection))
        for number in range(1, 4):
            tails = await crowd.waiting()

            await append(connection, crowd._table_id)

            answers = set(map(bytes, await asyncio.gather(*tails)))
            assert len(answers) == 1
            assert len(reads) == number
            crowd.offset = (
                decode_fetch_answer(memoryview(answers.pop()))[0].buckets[0].fields.high_watermark
            )


async def test_a_slow_read_is_made_once_for_all_who_want_the_same():
    reads, gate, made = SharedReads(), asyncio.Event(), []

    async def read():
        made.append(True)
        await gate.wait()
        return EncodedBucket((b"rows",), 4, 4)

    wanting = [asyncio.ensure_future(reads.once(("a",), read)) for _ in range(3)]
    other = asyncio.ensure_future(reads.once(("b",), read))
    await loop_turns()
    wanting.pop().cancel()
    gate.set()
    first, second = await asyncio.gather(*wanting)

    assert first is second
    assert await other is not first
    assert reads.find(("a",)) is first
    assert len(made) == 2


async def test_a_read_that_fails_is_told_to_all_who_wait_and_made_again_for_the_next():
    reads, outcomes = SharedReads(), [StorageError("The disk is on fire."), None]

    async def read():
        await loop_turns()
        if fault := outcomes.pop(0):
            raise fault
        return EncodedBucket((b"rows",), 4, 4)

    told = await asyncio.gather(
        *(reads.once(("a",), read) for _ in range(3)), return_exceptions=True
    )

    assert [type(each) for each in told] == [StorageError] * 3
    assert (await reads.once(("a",), read)).parts == (b"rows",)


def test_what_is_kept_for_others_is_bounded_and_the_latest():
    reads = SharedReads(bytes_max=10 * (1000 + KEPT_OVERHEAD_BYTES))
    for number in range(100):
        reads.keep((number,), EncodedBucket((bytes(1000),), 1000, 1000))
        reads.find((95,))
    large = KEPT_READ_BYTES_MAX + 1
    reads.keep(("large",), EncodedBucket((bytes(large),), large, large))

    assert reads.kept_bytes <= 10 * (1000 + KEPT_OVERHEAD_BYTES)
    assert [n for n in range(100) if reads.find((n,))] == list(range(90, 100))
    assert reads.find(("large",)) is None


# What readers ask for of the same rows, and what they get of a row.
KINDS = [
    ({}, lambda row: row),
    ({"columns": ["a"]}, lambda row: {"a": row["a"]}),
    ({"columns": ["b"]}, lambda row: {"b": row["b"]}),
    ({"columns": ["b", "a"]}, lambda row: {"b": row["b"], "a": row["a"]}),
    ({"where": [("a", ">=", 1)]}, lambda row: row if row["a"] >= 1 else None),
    ({"where": [("a", ">=", 2)]}, lambda row: row if row["a"] >= 2 else None),
    (
        {"columns": ["b"], "where": [("a", ">=", 2)]},
        lambda row: {"b": row["b"]} if row["a"] >= 2 else None,
    ),
]


async def took(tail, wanted) -> list[dict]:
    rows: list[dict] = []
    async with tail:
        while len(rows) < len(wanted):
            for batch in await tail.poll(1.0):
                rows += batch.rows.to_pylist()
    return rows


async def test_readers_who_take_different_columns_rows_or_schemas_do_not_get_each_others(tmp_path):
    rows = [{"a": number, "b": f"text {number}"} for number in range(4)]
    server = await Server.start(tmp_path, ServerSettings(port=0))
    async with await aio.connect(f"127.0.0.1:{server.port}") as client:
        table = await client.create_table("rows", {"a": "BIGINT", "b": "STRING"})
        tails = [(await table.tail("latest", **kind), take) for kind, take in KINDS + KINDS]
        await table.add_column("c", "INT")
        evolved = await client.table("rows")
        tails.append((await evolved.tail("latest"), lambda row: row | {"c": None}))

        wanted = [[seen for row in rows if (seen := take(row))] for _, take in tails]
        reading = [
            asyncio.ensure_future(took(tail, want))
            for (tail, _), want in zip(tails, wanted, strict=True)
        ]
        for row in rows:
            await table.append(row)

        assert await asyncio.gather(*reading) == wanted
    await server.stop()


async def test_a_tail_that_does_not_read_its_answers_does_not_hold_back_the_others(tmp_path):
    async with (
        running(tmp_path, response_bytes_max=64 * KIB) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        await fill(connection, table_id, batches=500)
        slow = await RawClient.open(server)
        slow.send(encoded(fetch_request(table_id), ApiKey.FETCH_LOG) * 1000)
        await until(lambda: any(each.stuck_since for each in server.listener._connections))
        request = fetch_request(table_id, wait_ms=LONG_MS, offset=5000)
        tails = [asyncio.ensure_future(served(server, request, session())) for _ in range(TAILS)]

        await append(connection, table_id)

        assert len(set(map(bytes, await asyncio.gather(*tails)))) == 1
        slow.abort()


# ---- turns


async def test_other_requests_are_answered_before_the_crowd(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        tails = await Crowd(server, table_id, count=200).waiting()

        await served(server, produce(table_id, 0, batch_of([(0, 1)])), session())
        await served(server, pb.ListDatabasesRequest(), session())

        assert sum(each.done() for each in tails) < 100
        await asyncio.gather(*tails)


async def test_fetches_go_on_a_few_in_each_turn_of_the_loop_one_client_after_the_other():
    turns, went = FetchTurns(), []
    flooding, modest = session(), session()

    async def fetch(name, of):
        await turns.turn(of)
        went.append(name)

    tasks = [asyncio.ensure_future(fetch("flooding", flooding)) for _ in range(20)]
    tasks += [asyncio.ensure_future(fetch("modest", modest)) for _ in range(2)]
    tasks[10].cancel()
    counts = [0]
    while not all(each.done() for each in tasks):
        await loop_turns()
        counts.append(len(went))

    steps = [after - before for before, after in pairwise(counts)]
    assert max(steps) <= FETCHES_PER_TURN
    assert went.index("modest") <= 2 * FETCHES_PER_TURN
    assert went.count("modest") == 2
    assert went.count("flooding") == 19
    assert not turns._sessions


def worked(pace, *, from_s, until_s):
    """Ask every tenth of a millisecond whether a crowd may go on, and return when it might."""
    moments = [from_s + step * 1e-4 for step in range(round((until_s - from_s) * 1e4))]
    return [now - from_s for now in moments if not pace.pause_s(now)]


def test_a_crowd_works_for_a_slice_and_rests():
    pace = CrowdPace()
    pace.begin(5.0)

    went = worked(pace, from_s=5.0, until_s=5.1)

    assert went[0] == 0
    assert max(after - before for before, after in pairwise(went)) <= REST_S + 3e-4
    assert len(went) * 1e-4 <= 0.1 * (SLICE_S + 2e-4) / (SLICE_S + REST_S)


def test_a_crowd_stops_for_a_write_and_waits_no_longer_than_the_limit():
    pace = CrowdPace()
    pace.begin(5.0)
    pace.pause_s(5.0)
    pace.writes = 1

    went = worked(pace, from_s=5.0, until_s=5.1)

    assert HOLD_S_MAX - 2e-4 <= went[0] <= HOLD_S_MAX + 2e-4
    assert max(after - before for before, after in pairwise(went)) <= HOLD_S_MAX + 2e-4


async def test_a_crowd_goes_on_when_the_last_write_is_done(monkeypatch):
    monkeypatch.setattr(readers, "HOLD_S_MAX", 3600.0)
    turns = FetchTurns()
    turns.hold()
    turns.hold()
    crowd = [asyncio.ensure_future(turns.turn(session())) for _ in range(50)]
    await loop_turns(20)
    held = sum(not each.done() for each in crowd)

    turns.release()
    await loop_turns(20)
    still_held = sum(not each.done() for each in crowd)
    turns.release()
    await asyncio.wait_for(asyncio.gather(*crowd), 30)

    assert held == still_held >= len(crowd) - FETCHES_PER_TURN - CROWD_CLIENTS_MIN


async def test_an_append_is_answered_before_the_crowd_that_reads_the_one_before(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(readers, "HOLD_S_MAX", 3600.0)
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        tails = await Crowd(server, table_id, count=200).waiting()

        for number in range(6):
            await served(server, produce(table_id, 0, batch_of([(0, number)])), session())

        answered = sum(each.done() for each in tails)
        assert answered <= FETCHES_PER_TURN
        await asyncio.gather(*tails)


async def test_each_of_a_crowd_gets_every_batch_once_and_in_order_beside_writers(tmp_path):
    async def offsets_read(server, table_id, of):
        found = [0]
        while found[-1] < 100:
            request = fetch_request(table_id, wait_ms=LONG_MS, offset=found[-1])
            (bucket,) = decode_fetch_answer(await served(server, request, of))[0].buckets
            for header, _ in log_batch.iterate(b"".join(bucket.records)):
                assert header.base_offset == found[-1]
                found.append(header.end_offset)
        return found

    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        crowd = [
            asyncio.ensure_future(offsets_read(server, table_id, session())) for _ in range(TAILS)
        ]

        await asyncio.gather(*(append(connection, table_id, rows=1) for _ in range(100)))

        assert await asyncio.gather(*crowd) == [list(range(101))] * TAILS


async def test_many_appends_before_its_turn_wake_a_tail_once(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        crowd = Crowd(server, await create_table(connection))
        tails = await crowd.waiting()
        queued = []
        services = server._services
        queue = services.turns.queue
        services.turns.queue = lambda *given: (queued.append(given), queue(*given))

        for wake in tuple(services.polls) * 3:
            wake()

        assert len(queued) == len(tails)
        await append(connection, crowd._table_id)
        assert len(set(map(bytes, await asyncio.gather(*tails)))) == 1


@pytest.mark.parametrize("cancelled", [1, TAILS])
async def test_tails_that_go_away_while_they_wait_leave_nothing_behind(tmp_path, cancelled):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        tails = await Crowd(server, table_id).waiting()
        for each in tails[:cancelled]:
            each.cancel()

        await append(connection, table_id)
        await asyncio.gather(*tails, return_exceptions=True)

        [(_, tablet)] = server.tablets.all_open()
        assert not server._services.polls
        assert not tablet._listeners
