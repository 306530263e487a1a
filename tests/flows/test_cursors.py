"""Cursors on a real server: shared by processes, one of which is killed, and looked after."""

import asyncio
import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from headwater.aio import connect
from headwater.client.reading.log_batch import Place
from headwater.errors import ConflictError, CursorLostError, MissingError
from tests.serving import ServerProcess, serving

ROOT = Path(__file__).parents[2]
BUCKETS = 6
LEASE_S = 1.5
WITHIN_S = 60
_names = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("cursors") / "data") as running:
        yield running


@pytest_asyncio.fixture
async def client(server):
    async with await connect(server.address) as client:
        yield client


@pytest_asyncio.fixture
async def table(client):
    return await make_table(client)


async def make_table(client, *, buckets: int = BUCKETS, **more):
    columns = {"id": "BIGINT", "day": "STRING"}
    return await client.create_table(f"orders_{next(_names)}", columns, buckets=buckets, **more)


def rows(*ids: int, day: str | None = None) -> list[dict[str, object]]:
    return [{"id": number, "day": day} for number in ids]


def ids(batches) -> list[int]:
    return sorted(number for batch in batches for number in batch.rows["id"].to_pylist())


async def drain(cursor) -> list[int]:
    """Return what a cursor gives until it gives nothing."""
    found = []
    while batches := await cursor.poll(1.0):
        found += batches
    return ids(found)


async def take(cursor, count: int) -> list[int]:
    """Return as many rows, however long they take."""
    found = []
    async with asyncio.timeout(WITHIN_S):
        while len(ids(found)) < count:
            found += await cursor.poll(1.0)
    return ids(found)


class ReaderProcess:
    """A member in a process of its own, and what it told so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict[str, object]] = []
        self.news = asyncio.Event()
        self.listening = asyncio.ensure_future(self.listen())

    async def listen(self) -> None:
        async for line in self.process.stdout:
            if line.endswith(b"\n"):
                self.told.append(json.loads(line))
                self.news.set()

    @property
    def assigned(self) -> list[int]:
        return next((each["assigned"] for each in reversed(self.told) if "assigned" in each), [])

    @property
    def given(self) -> list[tuple[int, int, int]]:
        """Return bucket, offset and id of each row."""
        return [
            (each["bucket"], offset, number)
            for each in self.told
            if "given" in each
            for offset, number in each["given"]
        ]

    @property
    def committed(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for each in self.told:
            found |= {int(key): at for key, at in each.get("committed", {}).items()}
        return found

    async def kill(self) -> None:
        if self.process.returncode is None:
            os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        await self.listening


@asynccontextmanager
async def reading(server: ServerProcess, table, *, count: int):
    """Start members in processes, and kill those that are left in the end."""
    command = [sys.executable, "-m", "tests.flows.cursor_reader", server.address]
    readers = []
    try:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *command, str(table.path), "readers", str(LEASE_S), stdout=-1, cwd=ROOT
            )
            readers.append(ReaderProcess(process))
        yield readers
    finally:
        for reader in readers:
            await reader.kill()


async def until(is_true: Callable[[], bool], reader: ReaderProcess) -> None:
    """Wait for something that a reader will tell of."""
    async with asyncio.timeout(WITHIN_S):
        while not is_true():
            reader.news.clear()
            await reader.news.wait()


def are_balanced(readers: list[ReaderProcess]) -> bool:
    share = BUCKETS // len(readers)
    return all(len(reader.assigned) == share for reader in readers)


async def append_forever(table, sent: set[int]) -> None:
    for start in itertools.count(step=30):
        await table.append(rows(*range(start, start + 30)))
        sent |= set(range(start, start + 30))


def ids_given(readers: list[ReaderProcess]) -> set[int]:
    return {number for reader in readers for _, _, number in reader.given}


def unexpected_repeats(readers: list[ReaderProcess], dead: ReaderProcess) -> list[object]:
    """Return rows that came twice although the dead member had committed them."""
    counts = Counter((b, offset) for reader in readers for b, offset, _ in reader.given)
    committed = dead.committed
    return [
        each for each, n in counts.items() if n > 1 and each[1] < committed.get(each[0], 1 << 62)
    ]


async def test_every_row_arrives_when_one_of_three_processes_is_killed(server, table):
    sent: set[int] = set()
    appending = asyncio.ensure_future(append_forever(table, sent))
    async with reading(server, table, count=3) as readers:
        dead, *others = readers
        await until(lambda: are_balanced(readers), others[0])
        await dead.kill()
        await until(lambda: are_balanced(others), others[0])
        appending.cancel()
        await until(lambda: sent <= ids_given(readers), others[0])

    assert unexpected_repeats(readers, dead) == []
    assert dead.given, "the dead one had work to do"
    assert all(reader.committed for reader in others)


async def test_a_group_goes_on_when_the_server_is_killed_and_started_again(tmp_path):
    server = ServerProcess(tmp_path / "data")
    async with await connect(server.address) as client:
        table = await make_table(client, buckets=2)
        async with table.cursor("steady", auto_commit=False, lease_s=LEASE_S) as cursor:
            await table.append(rows(1, 2))
            assert await take(cursor, 2) == [1, 2]
            await cursor.commit()
            await asyncio.to_thread(server.kill)
            server = await asyncio.to_thread(ServerProcess, tmp_path / "data", port=server.port)
            await table.append(rows(3, 4))

            assert await take(cursor, 2) == [3, 4]
            await cursor.commit()
        states = (await client.cursors.describe("steady", table.path)).places
    await asyncio.to_thread(server.stop)

    assert sum(state.position for state in states) == 4


async def test_a_cursor_begins_where_it_is_told_and_goes_on_from_there(client, table):
    await table.append(rows(1, 2, 3))
    async with table.cursor("news", start="latest", lease_s=LEASE_S) as cursor:
        await table.append(rows(4))
        assert await take(cursor, 1) == [4]
    await table.append(rows(5))

    async with table.cursor("news", start="earliest", lease_s=LEASE_S) as cursor:
        assert await take(cursor, 1) == [5]


async def test_columns_and_filters_narrow_what_a_cursor_gives(table):
    await table.append(rows(*range(10), day="monday"))
    where = [("id", ">=", 7)]
    async with table.cursor("few", columns=["id"], where=where, lease_s=LEASE_S) as cursor:
        batches = await cursor.poll(5.0)

        assert batches[0].rows.schema.names == ["id"]
        assert set(ids(batches) + await drain(cursor)) == {7, 8, 9}
        assert sum(cursor.positions.values()) == 10, "what was filtered out was read all the same"


async def test_describe_tells_who_reads_what_and_how_far_behind(client, table):
    await table.append(rows(*range(20)))
    async with table.cursor("seen", auto_commit=False, lease_s=LEASE_S) as cursor:
        before = await client.cursors.describe("seen", table.path)
        await drain(cursor)
        await cursor.commit()
        after = await client.cursors.describe("seen", table.path)

    assert (before.lag_rows, after.lag_rows) == (20, 0)
    assert 0 < before.lag_s < WITHIN_S
    assert after.lag_s == 0
    assert {place.owner for place in before.places} == {cursor.member}
    (member,) = after.members
    assert len(member.places) == BUCKETS
    assert str(os.getpid()) in member.note


async def test_list_tells_of_every_cursor(client, table):
    await table.append(rows(1, 2, 3))
    async with table.cursor("a.b", lease_s=LEASE_S) as cursor:
        await drain(cursor)
    async with table.cursor("c", auto_commit=False, lease_s=LEASE_S):
        listed = [each for each in await client.cursors.list() if each.table == table.path]

    assert [(each.name, each.members, each.lag_rows) for each in listed] == [
        ("a.b", 0, 0),
        ("c", 1, 3),
    ]


async def read_all(table, name: str) -> list[int]:
    async with table.cursor(name, lease_s=LEASE_S) as cursor:
        return await drain(cursor)


async def append_later(table, appended) -> datetime:
    """Append rows in another millisecond than those before, and return that moment."""
    clock = table.cluster.clock
    await clock.sleep(0.002)
    moment_ms = clock.now_ms()
    await table.append(appended)
    return datetime.fromtimestamp(moment_ms / 1000, UTC)


async def test_a_cursor_can_be_set_to_other_rows(client):
    table = await make_table(client, buckets=1)
    await table.append(rows(1, 2))
    between = await append_later(table, rows(3))
    assert await read_all(table, "again") == [1, 2, 3]

    results = []
    for to in ("earliest", "latest", between, {Place(None, 0): 1}, {0: 2}):
        await client.cursors.reset("again", table.path, to=to)
        results.append(await read_all(table, "again"))

    assert results == [[1, 2, 3], [], [3], [2, 3], [3]]


async def test_a_cursor_at_work_is_only_set_if_forced(client):
    table = await make_table(client, buckets=1)
    await table.append(rows(1, 2))
    async with table.cursor("busy", auto_commit=False, lease_s=LEASE_S) as cursor:
        await drain(cursor)
        with pytest.raises(ConflictError, match=cursor.member):
            await client.cursors.reset("busy", table.path, to="earliest")
        with pytest.raises(ConflictError):
            await client.cursors.delete("busy", table.path)

        await client.cursors.reset("busy", table.path, to="earliest", force=True)
        with pytest.raises(CursorLostError):
            await cursor.commit()

        assert await drain(cursor) == [1, 2]


async def test_a_deleted_cursor_is_gone(client, table):
    await read_all(table, "brief")

    await client.cursors.delete("brief", table.path)

    with pytest.raises(MissingError):
        await client.cursors.describe("brief", table.path)


async def test_partitions_come_and_go_while_a_cursor_reads(client):
    table = await make_table(client, buckets=2, partition_by="day")
    await table.append(rows(1, 2, day="monday"))
    async with table.cursor("days", start="latest", lease_s=LEASE_S) as cursor:
        await table.append(rows(3, 4, day="tuesday"))
        assert await take(cursor, 2) == [3, 4]
        await table.drop_partition({"day": "monday"})

        while {place.partition for place in cursor.assigned} != {"tuesday"}:
            await cursor.poll(0.1)
        await table.append(rows(5, day="monday"))

        assert await take(cursor, 1) == [5]
