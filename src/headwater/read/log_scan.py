"""Read a part of the log of a table, to an end that is fixed before."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from headwater.cluster.cluster import Cluster
from headwater.errors import PositionMissingError, RequestError
from headwater.model import OffsetRange, TableInfo
from headwater.read.filters import RowView, Where
from headwater.read.log_ranges import LogRanges
from headwater.read.offsets import (
    Buckets,
    LogBatch,
    Offsets,
    Place,
    Start,
    buckets_of,
    list_offsets,
    start_offsets,
)
from headwater.read.polls import FetchSize
from headwater.read.prune import pruned
from headwater.read.split import LogRange

# What is fetched at a time for the sake of a few rows.
LIMITED_BYTES_MAX = 256 * 1024


class LogScan:
    """Read the rows between two moments of a log, each once; iterate over it.

    The ends are fixed when reading begins, so it ends however fast others write. With
    `is_after_lake`, a start before what the log still holds is refused.
    """

    def __init__(  # noqa: PLR0913 - one argument per choice
        self,
        cluster: Cluster,
        table: TableInfo,
        *,
        start: Start = "earliest",
        end: Start = "latest",
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        partitions: Collection[str] | None = None,
        is_after_lake: bool = False,
    ) -> None:
        if limit is not None and limit < 0:
            raise RequestError(f"The limit is {limit}; it must not be negative.")
        self._cluster = cluster
        self._table = table
        self._start, self._end = start, end
        self._limit = limit
        self._partitions = partitions
        self._is_after_lake = is_after_lake
        self._ends: dict[Place, int] = {}
        self.view = RowView.of(table, columns=columns, where=where)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        return self.view.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the scan ends in each bucket, which is where a tail goes on."""
        return dict(self._ends)

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows."""
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                yield batch.rows

    async def batches(self) -> AsyncGenerator[LogBatch, None]:
        """Yield the rows with their offsets and what happened to them."""
        buckets: Buckets = await buckets_of(self._cluster, self._table, partitions=self._partitions)
        starts, self._ends = await self._bounds(buckets)
        # The ends are told of all buckets, so that a tail can go on in all.
        ranges = [
            LogRange.of(place, bucket, OffsetRange(starts[place], self._ends[place]))
            for place, bucket in pruned(buckets, self.view).items()
        ]
        async with aclosing(self._limited(ranges)) as batches:
            async for batch in batches:
                yield batch

    async def _limited(self, ranges: Sequence[LogRange]) -> AsyncGenerator[LogBatch, None]:
        """Read as much as the limit asks for; with rows missing to it, read further."""
        left, reader = self._limit, self._reader()
        while ranges and (left is None or left > 0):
            portion, ranges = self._portion(ranges, left)
            async with aclosing(_cut_off(reader.read(portion), left)) as batches:
                async for batch in batches:
                    left = None if left is None else left - batch.rows.num_rows
                    yield batch

    async def _bounds(self, buckets: Buckets) -> tuple[dict[Place, int], dict[Place, int]]:
        ends = await start_offsets(self._cluster, self._table, self._end, buckets=buckets)
        starts = await start_offsets(self._cluster, self._table, self._start, buckets=buckets)
        if self._is_after_lake:
            await self._check(starts, buckets)
        return starts, {place: max(end, starts[place]) for place, end in ends.items()}

    async def _check(self, starts: Mapping[Place, int], buckets: Buckets) -> None:
        """Refuse a start that only the lake reaches back to: its rows have no offsets or times."""
        # After the starts: a log that is cut meanwhile answers a moment with its new first offset.
        begins = await list_offsets(self._cluster, self._table, "earliest", buckets=buckets)
        is_vague = isinstance(self._start, datetime)
        for place, start in starts.items():
            begin = begins[place]
            if start < begin or (is_vague and start == begin > 0):
                raise PositionMissingError(
                    f"The log of bucket {place.bucket} of {self._table.path} begins at offset"
                    f" {begin}: what came before is in the lake, whose rows have no offsets and no"
                    " times.",
                    hint="Begin later, or leave 'start' out to read the lake, too.",
                )

    def _reader(self) -> LogRanges:
        size = FetchSize.of(self._cluster.settings)
        if self._counts_offsets:
            size = FetchSize(size.bytes_max, min(size.bucket_bytes_max, LIMITED_BYTES_MAX))
        return LogRanges(self._cluster, self.view, size=size)

    @property
    def _counts_offsets(self) -> bool:
        """Tell whether as many rows are needed as offsets, at least."""
        return self._limit is not None and self.view.filter is None

    def _portion(
        self, ranges: Sequence[LogRange], left: int | None
    ) -> tuple[list[LogRange], list[LogRange]]:
        """Return what to read now of each bucket, and what is left to read then."""
        if left is None or not self._counts_offsets:
            return list(ranges), []
        now, then = list[LogRange](), list[LogRange]()
        for each in ranges:
            start, end = each.offsets.start, each.offsets.end
            middle = min(start + left, end)
            now.append(replace(each, offsets=OffsetRange(start, middle)))
            if middle < end:
                then.append(replace(each, offsets=OffsetRange(middle, end)))
        return now, then


async def _cut_off(
    batches: AsyncGenerator[LogBatch, None], limit: int | None
) -> AsyncGenerator[LogBatch, None]:
    """Yield no more rows than a limit allows."""
    left = limit
    async with aclosing(batches):
        async for batch in batches:
            part = batch if left is None else _first(batch, left)
            left = None if left is None else left - part.rows.num_rows
            yield part
            if left == 0:
                return


def _first(batch: LogBatch, count: int) -> LogBatch:
    times = None if batch.timestamps is None else batch.timestamps[:count]
    return LogBatch(
        rows=batch.rows.slice(0, count),
        changes=None if batch.changes is None else batch.changes[:count],
        offsets=batch.offsets[:count],
        timestamp_ms=batch.timestamp_ms if times is None else int(times[-1]),
        bucket=batch.bucket,
        partition=batch.partition,
        timestamps=times,
    )
