"""Appending to log tables."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.routing import Router, Share
from headwater.client.writing.log_lane import LogLane, LogRows
from headwater.client.writing.pipeline import Pipeline
from headwater.client.writing.receipts import Receipt
from headwater.client.writing.sharing import Part, cut
from headwater.client.writing.target import Target
from headwater.client.writing.writers import Writers
from headwater.model.table import TableInfo


class Appender:
    """Append rows to one log table; batches have the schema of the table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: Writers) -> None:
        self._settings = cluster.settings
        self._lane = LogLane(table, plain_bytes_max=lambda: writers.plain_bytes_max)
        self._router = Router.of(table.descriptor)
        self._target: Target[None] = Target(cluster, table, writers=writers, plan=self._plan)
        self.pipeline = Pipeline(self._target, writers)

    async def append(self, batches: Iterable[pa.RecordBatch]) -> Receipt:
        """Append rows and wait until they are acknowledged.

        Buckets are written side by side. If one fails, the others are still waited for.
        """
        return await self._target.deliver((None, batch) for batch in batches)

    async def submit(self, batch: pa.RecordBatch) -> None:
        """Append rows without waiting for them, but wait while too many are on their way.

        The memory of the batch must not change before `flush`.
        """
        await self.pipeline.submit(None, batch)

    async def put(self, batch: pa.RecordBatch) -> None:
        """Submit rows without being told of what failed before."""
        await self.pipeline.put(None, batch)

    async def flush(self) -> Receipt:
        """Wait for everything submitted since the last flush; raise the first failure."""
        return await self.pipeline.flush()

    def _plan(self, _: None, batch: pa.RecordBatch) -> Sequence[Part]:
        return [
            Part(self._lane, share.partition, share.bucket, rows)
            for share in self._router.route(batch)
            for rows in cut(_taken(batch, share), self._settings, slice_of=_slice)
        ]


def _taken(batch: pa.RecordBatch, share: Share) -> LogRows:
    return LogRows.of(batch if share.rows is None else batch.take(pa.array(share.rows)))


def _slice(rows: LogRows, start: int, end: int) -> LogRows:
    return LogRows.of(rows.batch.slice(start, end - start))
