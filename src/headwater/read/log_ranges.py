"""Ranges of logs, read to their ends: the one loop over a part of a log.

Union reads, states, Spark's tasks, tiering and audits all read logs through `LogRanges`. It reads
the ranges of all buckets at the same time, each in its order, and gives up when nothing comes for
as long as the client's deadline. Rows that retention removed, or that went with their partition,
are an error unless the caller says how to go on.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace

from headwater.cluster.cluster import Cluster
from headwater.errors import OffsetOutOfRangeError, TimedOutError
from headwater.model import LakeBucket, OffsetRange, TablePath
from headwater.read.fetcher import Fetcher
from headwater.read.filters import RowView
from headwater.read.offsets import LogBatch, Place, list_offsets
from headwater.read.polls import FetchSize
from headwater.read.split import LogRange

_POLL_S = 1.0

OnCut = Callable[[Mapping[Place, OffsetRange]], None]
"""Told which unread offsets of each bucket are gone; raises, or returns to go on behind them."""


class LogRanges:
    """Read ranges of the logs of one table."""

    def __init__(
        self,
        cluster: Cluster,
        view: RowView,
        *,
        size: FetchSize | None = None,
        forgets_dropped: bool = False,
        on_cut: OnCut | None = None,
    ) -> None:
        """Prepare to read; with `forgets_dropped`, buckets end when their partition is dropped."""
        self._cluster = cluster
        self._view = view
        self._size = size
        self._forgets_dropped = forgets_dropped
        self._on_cut = on_cut

    async def read(self, ranges: Iterable[LogRange]) -> AsyncGenerator[LogBatch, None]:
        """Yield the rows of ranges; ends when all of their offsets were read, rows or not."""
        for together in rounds_of(ranges):
            async with aclosing(self._read(together)) as batches:
                async for batch in batches:
                    yield batch

    async def _read(self, ranges: Iterable[LogRange]) -> AsyncGenerator[LogBatch, None]:
        """Yield the rows of ranges of different buckets."""
        table = self._view.table
        fetcher = Fetcher(
            self._cluster, self._view, size=self._size, forgets_dropped=self._forgets_dropped
        )
        try:
            for each in ranges:
                offsets, bucket = each.offsets, each.bucket_of(table)
                fetcher.follow(each.place, bucket, offset=offsets.start, end=offsets.end)
            async for batch in self._to_the_ends(fetcher):
                yield batch
        finally:
            await fetcher.close()

    async def _to_the_ends(self, fetcher: Fetcher) -> AsyncIterator[LogBatch]:
        while not fetcher.is_done:
            try:
                async for batch in _drained(fetcher, self._cluster, table=self._view.table.path):
                    yield batch
            except OffsetOutOfRangeError as fault:
                if self._on_cut is None:
                    raise
                await self._pass_over(fetcher, self._on_cut, fault)

    async def _pass_over(
        self, fetcher: Fetcher, on_cut: OnCut, fault: OffsetOutOfRangeError
    ) -> None:
        """Go on at the first rows that are left, in each log that has lost some."""
        unread = {place: each for place, each in fetcher.followed.items() if not each.is_done}
        buckets = {place: each.bucket for place, each in unread.items()}
        earliest = await list_offsets(self._cluster, self._view.table, "earliest", buckets=buckets)
        lost = cut_offsets({place: each.position for place, each in unread.items()}, earliest)
        if not lost:
            # Not before the log, but behind it: nothing of that can be passed over.
            raise fault
        on_cut(lost)
        for place, offsets in lost.items():
            each = unread[place]
            end = offsets.end if each.end is None else each.end
            fetcher.follow(place, each.bucket, offset=min(offsets.end, end), end=end)


def cut_offsets(
    positions: Mapping[Place, int], earliest: Mapping[Place, int]
) -> dict[Place, OffsetRange]:
    """Return the offsets that are gone of each log that begins behind a position."""
    return {
        place: OffsetRange(at, earliest[place])
        for place, at in positions.items()
        if earliest[place] > at
    }


def rounds_of(ranges: Iterable[LogRange]) -> list[list[LogRange]]:
    """Join ranges that follow each other; of one bucket, no two are in one round."""
    rounds: list[dict[LakeBucket, LogRange]] = [{}]
    filled = (each for each in ranges if each.offsets.start < each.offsets.end)
    for each in sorted(filled, key=lambda one: one.offsets.start):
        bucket = each.log_bucket
        last = next((held for held in reversed(rounds) if bucket in held), None)
        if last is None:
            rounds[0][bucket] = each
        elif last[bucket].offsets.end == each.offsets.start:
            joined = OffsetRange(last[bucket].offsets.start, each.offsets.end)
            last[bucket] = replace(each, offsets=joined)
        elif last is rounds[-1]:
            rounds.append({bucket: each})
        else:
            rounds[rounds.index(last) + 1][bucket] = each
    return [list(held.values()) for held in rounds if held]


async def _drained(
    fetcher: Fetcher, cluster: Cluster, *, table: TablePath
) -> AsyncIterator[LogBatch]:
    """Yield what a fetcher reads until all of its buckets are read to their ends."""
    clock, deadline_s = cluster.clock, cluster.settings.deadline_s
    waits_from = clock.monotonic()
    while not fetcher.is_done:
        batches = await fetcher.poll(_POLL_S)
        for batch in batches:
            yield batch
        if batches:
            # However long the caller took for them.
            waits_from = clock.monotonic()
        elif clock.monotonic() - max(waits_from, fetcher.progress_at) > deadline_s:
            fault = fetcher.last_fault
            why = f" The last attempt failed: {fault}" if fault else ""
            raise TimedOutError(
                f"Reading {table} made no progress for {deadline_s:g} s.{why}"
            ) from fault
