"""Members of a group in processes of their own, and what they tell."""

import asyncio
import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

ROOT = Path(__file__).parents[2]
BUCKETS = 6
LEASE_S = 1.5
# Longer than a busy machine keeps a process waiting, so that none is taken for dead by mistake.
PROCESS_LEASE_S = 4.0
WITHIN_S = 60
# Enough rows to be in the middle of some at any time; more would only keep the readers busy.
PAUSE_S = 0.02


async def make_table(client, *, buckets: int = BUCKETS, **more):
    columns = {"id": "BIGINT", "day": "STRING"}
    return await client.create_table(f"orders_{uuid4().hex}", columns, buckets=buckets, **more)


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
            for bucket, at in each.get("committed", {}).items():
                found[int(bucket)] = max(at, found.get(int(bucket), 0))
        return found

    async def kill(self) -> None:
        if self.process.returncode is None:
            os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        await self.listening


async def start_reader(address: str, table) -> ReaderProcess:
    command = [sys.executable, "-m", "tests.flows.cursor_reader", address, str(table.path)]
    process = await asyncio.create_subprocess_exec(
        *command, "readers", str(PROCESS_LEASE_S), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    return ReaderProcess(process)


async def until(is_true: Callable[[], bool], reader: ReaderProcess) -> None:
    """Wait for something that a reader will tell of."""
    async with asyncio.timeout(WITHIN_S):
        while not is_true():
            reader.news.clear()
            await reader.news.wait()


def are_balanced(readers: list[ReaderProcess]) -> bool:
    shares = sorted(len(reader.assigned) for reader in readers)
    return sum(shares) == BUCKETS and shares[-1] - shares[0] <= 1


async def append_forever(table, sent: set[int]) -> None:
    for start in itertools.count(step=30):
        await table.append(rows(*range(start, start + 30)))
        sent |= set(range(start, start + 30))
        await asyncio.sleep(PAUSE_S)


def ids_given(readers: list[ReaderProcess]) -> set[int]:
    return {number for reader in readers for _, _, number in reader.given}


def committed_twice(readers: list[ReaderProcess]) -> list[tuple[int, int]]:
    """Return rows that two members were given and committed, one after the other."""
    counts = Counter(
        (bucket, offset)
        for reader in readers
        for bucket, offset, _ in reader.given
        if offset < reader.committed.get(bucket, 0)
    )
    return [row for row, count in counts.items() if count > 1]


async def check_killed_members(address: str, table, *, kills: int = 1) -> None:
    """Kill members one by one while rows come in: all arrive, and no commit is forgotten."""
    sent: set[int] = set()
    appending = asyncio.ensure_future(append_forever(table, sent))
    dead: list[ReaderProcess] = []
    readers = [await start_reader(address, table) for _ in range(3)]
    try:
        for _ in range(kills):
            await until(lambda: are_balanced(readers), readers[-1])
            await until(lambda: bool(readers[0].given), readers[0])
            dead.append(readers.pop(0))
            await dead[-1].kill()
            if len(dead) < kills:
                readers.append(await start_reader(address, table))
        await until(lambda: are_balanced(readers), readers[-1])
        appending.cancel()
        await until(lambda: sent <= ids_given(readers + dead), readers[-1])
    finally:
        appending.cancel()
        for reader in readers:
            await reader.kill()
    assert committed_twice(readers + dead) == []
    assert any(each.committed for each in readers)
