"""A table to read in memory, a clock that is moved by hand, and cursors over both."""

import asyncio
import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pyarrow as pa

from headwater.client.cursors.cursor import AsyncCursor
from headwater.client.cursors.rows import GroupKey
from headwater.client.cursors.source import CursorOptions
from headwater.model.bucket import Lineage, TableBucket
from headwater.read.offsets import LogBatch, Place
from tests.client.cursors.model import ModelTable, PlainStore
from tests.clocks import loop_turns

TABLE_ID = 7


@dataclass
class HandClock:
    """Show the time that was set; who sleeps wakes when it has come."""

    now_s: float = 1000.0
    sleeping: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)
    numbers: count = field(default_factory=count)

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await loop_turns()
            return
        waking = asyncio.get_running_loop().create_future()
        heapq.heappush(self.sleeping, (self.now_s + seconds, next(self.numbers), waking))
        await waking

    async def advance(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.sleeping and self.sleeping[0][0] <= end_s:
            self.now_s, _, waking = heapq.heappop(self.sleeping)
            if not waking.done():
                waking.set_result(None)
            await drained()
        self.now_s = end_s


async def drained() -> None:
    """Let everything run that can run now."""
    await loop_turns(10)


@dataclass
class MemoryLog:
    """Rows of a table, in buckets; each row is a number."""

    rows: dict[int, list[int]]
    batch_rows: int = 100

    def append(self, bucket: int, *numbers: int) -> None:
        self.rows.setdefault(bucket, []).extend(numbers)


class MemorySource:
    """Read rows from memory as a tail reads them from a server."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.position: dict[TableBucket, int] = {}
        self.is_closed = False

    async def places(self) -> dict[TableBucket, Place]:
        return {TableBucket(TABLE_ID, number): Place(None, number) for number in self.log.rows}

    async def offsets(self, start: object) -> dict[TableBucket, int]:
        is_latest = start == "latest"
        return {
            TableBucket(TABLE_ID, number): len(rows) if is_latest else 0
            for number, rows in self.log.rows.items()
        }

    async def assign(self, positions: Mapping[TableBucket, int]) -> None:
        self.position = dict(positions)

    async def poll(self, timeout_s: float) -> list[LogBatch]:
        batches: list[LogBatch] = []
        for bucket, start in list(self.position.items()):
            rows = self.log.rows[bucket.bucket]
            step = self.log.batch_rows
            batches += [
                batch_of(bucket, low, rows[low : low + step])
                for low in range(start, len(rows), step)
            ]
            self.position[bucket] = len(rows)
        return batches

    async def lineages(self) -> dict[TableBucket, Lineage]:
        return {}

    def written_by(self, bucket: TableBucket, position: int) -> int:
        return 0

    async def close(self) -> None:
        self.is_closed = True


def batch_of(bucket: TableBucket, start: int, numbers: list[int]) -> LogBatch:
    rows = pa.record_batch({"n": pa.array(numbers, pa.int64())})
    offsets = np.arange(start, start + len(numbers))
    return LogBatch(rows, None, offsets, 0, bucket, None)


@dataclass
class Desk:
    """Open cursors over one log and one table of positions."""

    log: MemoryLog
    clock: HandClock = field(default_factory=HandClock)
    table: ModelTable = field(default_factory=ModelTable)
    numbers: count = field(default_factory=count)

    def cursor(self, **options) -> AsyncCursor:
        async def open_store():
            return PlainStore(self.table)

        return AsyncCursor(
            MemorySource(self.log),
            open_store,
            group=GroupKey("cursor", "log"),
            member=f"member-{next(self.numbers)}",
            clock=self.clock,
            options=CursorOptions(**{"commit_interval_s": 0.0, **options}),
        )


def numbers_in(batches: list[LogBatch]) -> list[int]:
    return [number for batch in batches for number in batch.rows.column("n").to_pylist()]
