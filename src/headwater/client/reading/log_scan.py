"""Reading a part of the log of a table, to an end that is fixed before."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.draining import drained
from headwater.client.reading.fetch_request import FetchSize
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.filters import Where
from headwater.client.reading.log_batch import LogBatch, Offsets, Place
from headwater.client.reading.places import Buckets, buckets_of
from headwater.client.reading.pruning import pruned
from headwater.client.reading.starts import Start, start_offsets
from headwater.client.reading.view import View
from headwater.errors import RequestError
from headwater.model.table import TableInfo

# What is fetched at a time for the sake of a few rows.
LIMITED_BYTES_MAX = 256 * 1024


class LogScan:
    """Read the rows between two moments of a log, each once; iterate over it.

    The ends are fixed when reading begins, so it ends however fast others write.
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
    ) -> None:
        if limit is not None and limit < 0:
            raise RequestError(f"The limit is {limit}, below 0.")
        self._cluster = cluster
        self._table = table
        self._start, self._end = start, end
        self._limit = limit
        self._partitions = partitions
        self._ends: dict[Place, int] = {}
        self.view = View.of(table, columns=columns, where=where)

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
        buckets = pruned(buckets, self.view)
        starts = {place: start for place, start in starts.items() if place in buckets}
        fetcher = self._fetcher()
        try:
            async for batch in self._limited(fetcher, buckets, starts=starts):
                yield batch
        finally:
            await fetcher.close()

    async def _limited(
        self, fetcher: Fetcher, buckets: Buckets, *, starts: dict[Place, int]
    ) -> AsyncIterator[LogBatch]:
        """Read as much as the limit asks for; with rows missing to it, read further."""
        left = self._limit
        while left is None or left > 0:
            for place, end in self._portion(starts, left).items():
                fetcher.follow(place, buckets[place], offset=starts[place], end=end)
                starts[place] = end
            if fetcher.is_done:
                return
            async for batch in drained(fetcher, self._cluster, table=self._table.path):
                part = batch if left is None else _first(batch, left)
                left = None if left is None else left - part.rows.num_rows
                yield part
                if left == 0:
                    return

    async def _bounds(self, buckets: Buckets) -> tuple[dict[Place, int], dict[Place, int]]:
        ends = await start_offsets(self._cluster, self._table, self._end, buckets=buckets)
        starts = await start_offsets(self._cluster, self._table, self._start, buckets=buckets)
        return starts, {place: max(end, starts[place]) for place, end in ends.items()}

    def _fetcher(self) -> Fetcher:
        size = FetchSize.of(self._cluster.settings)
        if self._counts_offsets:
            size = FetchSize(size.bytes_max, min(size.bucket_bytes_max, LIMITED_BYTES_MAX))
        return Fetcher(self._cluster, self.view, size=size)

    @property
    def _counts_offsets(self) -> bool:
        """Tell whether as many rows are needed as offsets, at least."""
        return self._limit is not None and self.view.filter is None

    def _portion(self, starts: Mapping[Place, int], left: int | None) -> dict[Place, int]:
        """Return how far to read now in each bucket that is not read up."""
        if left is None or not self._counts_offsets:
            left = max(self._ends.values(), default=0)
        return {
            place: min(start + left, self._ends[place])
            for place, start in starts.items()
            if start < self._ends[place]
        }


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
