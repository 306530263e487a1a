"""Follow a table as it is written."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from types import TracebackType
from typing import Self

from headwater.cluster.cluster import Cluster
from headwater.errors import RequestError
from headwater.model import TableInfo
from headwater.read.fetcher import Fetcher
from headwater.read.filters import RowView, Where
from headwater.read.offsets import (
    Buckets,
    LogBatch,
    Offsets,
    Place,
    Start,
    buckets_at,
    buckets_of,
    list_offsets,
    start_offsets,
)
from headwater.read.prune import pruned
from headwater.rows.columns import few, shown
from headwater.runtime.tasks import Tasks, repeat

DISCOVERY_S = 10.0
POLL_S = 1.0


class Tail:
    """Follow the log of a table: batch after batch, as they are written.

    Partitions that are made while it runs are read from their first row on, and those that are
    dropped end. A reader that is told which buckets to follow follows these and no others.
    """

    def __init__(  # noqa: PLR0913 - one argument per choice
        self,
        cluster: Cluster,
        table: TableInfo,
        *,
        start: Start,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Collection[str] | None = None,
        buckets: Collection[Place] | None = None,
        discovery_s: float = DISCOVERY_S,
    ) -> None:
        self._cluster = cluster
        self._table = table
        self._start = start
        self._partitions = partitions
        self._buckets = buckets
        self._discovery_s = discovery_s
        self.view = RowView.of(table, columns=columns, where=where)
        self._fetcher = Fetcher(cluster, self.view, forgets_dropped=True)
        self._tasks = Tasks()
        self._is_started = False
        self._starting: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return str(self._table.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are given."""
        return self.view.names

    def __repr__(self) -> str:
        return shown(self, self.name, columns=few(self.columns))

    @property
    def position(self) -> Offsets:
        """Return the offset that is read next in each bucket; empty before the first poll."""
        return {place: each.position for place, each in self._fetcher.followed.items()}

    async def start(self) -> None:
        """Find the buckets and where to begin; the first poll does it otherwise."""
        while not await self._started_within(POLL_S):
            pass

    async def poll(self, timeout_s: float = POLL_S) -> list[LogBatch]:
        """Return the batches that are there, waiting no longer than the timeout for the first."""
        clock = self._cluster.clock
        deadline = clock.monotonic() + timeout_s
        if not await self._started_within(timeout_s):
            return []
        return await self._fetcher.poll(max(deadline - clock.monotonic(), 0.0))

    async def _started_within(self, timeout_s: float) -> bool:
        """Begin, over several polls if it takes that long, as when no server can be reached."""
        if self._is_started:
            return True
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._begin())
        done, _ = await asyncio.wait({self._starting}, timeout=timeout_s)
        for started in done:
            self._starting = None
            started.result()
        return bool(done)

    async def _begin(self) -> None:
        buckets = await self._find_buckets()
        offsets = await start_offsets(self._cluster, self._table, self._start, buckets=buckets)
        self._is_started = True
        for place, bucket in pruned(buckets, self.view).items():
            self._fetcher.follow(place, bucket, offset=offsets[place])
        if self._table.is_partitioned and self._buckets is None:
            discovering = repeat(
                self._discover,
                every_s=self._discovery_s,
                clock=self._cluster.clock,
                name="discover partitions",
            )
            self._tasks.start(discovering, name="discover partitions")

    async def _stop_tasks(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
            self._starting = None
        await self._tasks.stop()

    async def seek(self, offsets: Offsets) -> None:
        """Read on from other offsets in some of the buckets."""
        await self.start()
        for place, offset in offsets.items():
            followed = self._fetcher.followed.get(place)
            if followed is None:
                raise RequestError(f"{place} is not followed.")
            self._fetcher.follow(place, followed.bucket, offset=_checked(offset))

    async def assign(self, places: Offsets) -> None:
        """Follow these buckets and no others; one that goes on where it is is not disturbed."""
        buckets = await buckets_at(self._cluster, self._table, places)
        await self._stop_tasks()
        self._is_started, self._buckets = True, tuple(places)
        for place in [each for each in self._fetcher.followed if each not in places]:
            self._fetcher.drop(place)
        for place, offset in places.items():
            followed = self._fetcher.followed.get(place)
            goes_on = followed is not None and (followed.bucket, followed.position) == (
                buckets[place],
                offset,
            )
            if not goes_on:
                self._fetcher.follow(place, buckets[place], offset=_checked(offset))

    async def __aiter__(self) -> AsyncIterator[LogBatch]:
        """Yield batches for ever."""
        while True:
            for batch in await self.poll():
                yield batch

    async def close(self) -> None:
        """Stop following."""
        await self._stop_tasks()
        await self._fetcher.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _find_buckets(self) -> Buckets:
        if self._buckets is not None:
            return await buckets_at(self._cluster, self._table, self._buckets)
        return await buckets_of(self._cluster, self._table, partitions=self._partitions)

    async def _discover(self) -> None:
        """Follow partitions that are new, and let go of those that are no more."""
        buckets = pruned(await buckets_of(self._cluster, self._table), self.view)
        found = {
            place: bucket
            for place, bucket in buckets.items()
            if self._partitions is None or place.partition in self._partitions
        }
        for place, followed in tuple(self._fetcher.followed.items()):
            if found.get(place) != followed.bucket:
                self._fetcher.drop(place)
        new = {place: b for place, b in found.items() if place not in self._fetcher.followed}
        if new:
            offsets = await list_offsets(self._cluster, self._table, "earliest", buckets=new)
            for place, offset in offsets.items():
                self._fetcher.follow(place, new[place], offset=offset)


def _checked(offset: int) -> int:
    if offset < 0:
        raise RequestError(f"Offset {offset} is negative.", hint="Offsets begin at 0.")
    return offset
