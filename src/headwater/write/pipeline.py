"""Append to log tables, upsert into primary-key tables and delete from them, without waiting.

What is submitted while a batch is under way goes together in the next one.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import pyarrow as pa

from headwater.cluster.cluster import Cluster
from headwater.errors import HeadwaterError
from headwater.model import LogPosition, TableInfo
from headwater.model.bucket import UNKNOWN
from headwater.write import plan
from headwater.write.batches import PlacedRows
from headwater.write.encode import INLINE_BYTES_MAX, target_columns
from headwater.write.receipts import Delivery, Receipt, receipt_of
from headwater.write.target import Target, WriteContext

# Writing without waiting for each batch: what is submitted meanwhile goes together.

K = TypeVar("K")


class Pipeline(Generic[K]):
    """Plan batches and queue them, for callers that wait for each call and for those that do not.

    Of what is submitted without waiting, small batches are joined while those before are encoded.
    """

    def __init__(self, planner: plan.Planner[K], target: Target, writers: WriteContext) -> None:
        self._planner = planner
        self._target = target
        self._work = writers.work
        self._bytes_max = writers.cluster.settings.batch_bytes_max
        self._rows_max = writers.cluster.settings.batch_rows_max
        self._waiting: deque[tuple[K, pa.RecordBatch, int]] = deque()
        self._waiting_bytes = 0
        self._moved = asyncio.Event()
        self._delivery = target.delivery()
        self._untold: tuple[Delivery, ...] = ()
        self._pump: asyncio.Task[None] | None = None

    @property
    def has_failed(self) -> bool:
        """Tell whether something failed that the caller was not told yet."""
        # Asked for every single row, so the usual case comes first.
        if not self._untold:
            return self._delivery.has_failed
        return any(each.has_failed for each in (*self._untold, self._delivery))

    async def deliver(self, batches: Iterable[tuple[K, pa.RecordBatch]]) -> Receipt:
        """Write the batches of one call, and wait for what became of them."""
        delivery = self._target.delivery()
        for kind, batch in self._slices(batches):
            try:
                parts = await self._parts(kind, batch)
            except HeadwaterError as fault:
                # What was queued before is still waited for, so that the caller is told of it.
                delivery.refused(batch.num_rows, fault)
                break
            await self._target.submit(parts, delivery)
            if delivery.has_failed:
                break
        return await delivery.receipt()

    def _slices(
        self, batches: Iterable[tuple[K, pa.RecordBatch]]
    ) -> Iterator[tuple[K, pa.RecordBatch]]:
        """Cut batches, so that some rows are on their way while others are still shared out."""
        for kind, batch in batches:
            for start in range(0, batch.num_rows, self._rows_max):
                yield kind, batch.slice(start, self._rows_max)

    async def _parts(self, kind: K, batch: pa.RecordBatch) -> Sequence[PlacedRows]:
        """Share a batch out, in a thread where that takes long."""
        if batch.nbytes <= INLINE_BYTES_MAX:
            return self._planner.plan(kind, batch)
        return await asyncio.to_thread(self._planner.plan, kind, batch)

    async def submit(self, kind: K, batch: pa.RecordBatch) -> None:
        """Take a batch, waiting while those before it find no room; raise what failed before."""
        if self.has_failed:
            await self.flush()
        await self.put(kind, batch)

    async def put(self, kind: K, batch: pa.RecordBatch) -> None:
        """Take a batch, waiting while those before it find no room; a failure is told later."""
        while self._waiting_bytes >= self._bytes_max:
            self._moved.clear()
            await self._moved.wait()
        if not batch.num_rows:
            return
        size = batch.nbytes
        self._waiting.append((kind, batch, size))
        self._waiting_bytes += size
        if self._pump is None or self._pump.done():
            self._pump = self._work.start(self._run(), name="write what was submitted")

    async def flush(self) -> Receipt:
        """Wait for everything submitted since the last flush; raise the first failure."""
        while self._pump is not None and not self._pump.done():
            await asyncio.wait([self._pump])
        deliveries = (*self._untold, self._delivery)
        self._delivery, self._untold = self._target.delivery(), ()
        try:
            return receipt_of([await each.outcome() for each in deliveries])
        except asyncio.CancelledError:
            # Whoever was interrupted is told by the next flush.
            self._untold = (*deliveries, *self._untold)
            raise

    def refuse(self, rows: int, fault: HeadwaterError) -> None:
        """Take note of rows that cannot be written; the next call is told."""
        self._delivery.refused(rows, fault)

    async def settle(self) -> None:
        """Wait until nothing is on its way, whatever became of it."""
        while self._pump is not None and not self._pump.done():
            await asyncio.wait([self._pump])
        await self._delivery.outcome()

    async def _run(self) -> None:
        while self._waiting:
            kind, batches = self._next_run()
            self._moved.set()
            await self._write(kind, batches)

    def _next_run(self) -> tuple[K, list[pa.RecordBatch]]:
        """Take batches of one kind from the front, as many as make one batch."""
        kind = self._waiting[0][0]
        run: list[pa.RecordBatch] = []
        rows = size = 0
        while self._waiting and self._waiting[0][0] == kind:
            _, batch, batch_bytes = self._waiting[0]
            rows, size = rows + batch.num_rows, size + batch_bytes
            if run and (rows > self._rows_max or size > self._bytes_max):
                break
            run.append(batch)
            self._waiting_bytes -= batch_bytes
            self._waiting.popleft()
        return kind, run

    async def _write(self, kind: K, batches: list[pa.RecordBatch]) -> None:
        joined = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        try:
            parts = await self._parts(kind, joined)
        except HeadwaterError as fault:
            if len(batches) == 1:
                self._delivery.refused(joined.num_rows, fault)
                return
            # Nothing was queued yet, so only those need to fail that are at fault.
            for batch in batches:
                await self._write(kind, [batch])
            return
        await self._target.submit(parts, self._delivery)


# Appending to log tables.


class Appender:
    """Append rows to one log table; batches have the schema of the table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: WriteContext) -> None:
        self.planner = plan.LogPlanner(table, cluster.settings, wishes=writers.ids)
        target = Target(cluster, table, writers)
        self.pipeline: Pipeline[None] = Pipeline(self.planner, target, writers)

    async def append(self, batches: Iterable[pa.RecordBatch]) -> Receipt:
        """Append rows and wait until they are acknowledged.

        Buckets are written side by side. If one fails, the others are still waited for.
        """
        return await self.pipeline.deliver((None, batch) for batch in batches)

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


# Upserting into primary-key tables, and deleting from them.


class Upserter:
    """Write rows of one primary-key table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: WriteContext) -> None:
        self._table = table
        self.planner = plan.KvPlanner(table, cluster.settings)
        target = Target(cluster, table, writers)
        self.pipeline: Pipeline[plan.KvKind] = Pipeline(self.planner, target, writers)

    async def upsert(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        columns: Sequence[str] | None = None,
        only_if: Sequence[LogPosition] = (),
    ) -> Receipt:
        """Insert or update rows and wait until they are acknowledged.

        With columns named, which include the primary key, only these change. `only_if` names logs
        without which the storage is another one, and writes nothing.
        """
        known = tuple(each for each in only_if if each.incarnation != UNKNOWN)
        kind = replace(self._upsert(columns), only_if=known)
        return await self.pipeline.deliver((kind, batch) for batch in batches)

    async def delete(self, keys: Iterable[pa.RecordBatch]) -> Receipt:
        """Delete the rows of these primary keys and wait until that is acknowledged."""
        return await self.pipeline.deliver((plan.Delete(), batch) for batch in keys)

    async def submit(self, batch: pa.RecordBatch, *, columns: Sequence[str] | None = None) -> None:
        """Upsert without waiting for it, but wait while too many rows are on their way.

        The memory of the batch must not change before `flush`.
        """
        await self.pipeline.submit(self._upsert(columns), batch)

    async def submit_delete(self, keys: pa.RecordBatch) -> None:
        """Delete without waiting for it."""
        await self.pipeline.submit(plan.Delete(), keys)

    async def put(self, batch: pa.RecordBatch) -> None:
        """Submit rows without being told of what failed before."""
        await self.pipeline.put(plan.Upsert(None), batch)

    async def put_delete(self, keys: pa.RecordBatch) -> None:
        """Submit deletes without being told of what failed before."""
        await self.pipeline.put(plan.Delete(), keys)

    @property
    def mixes_deletes(self) -> bool:
        """Tell whether rows and deletes can be one batch, which says of both what is written."""
        return target_columns(self._table.schema, None) is None

    async def put_changes(self, batch: pa.RecordBatch, deletes: bytes) -> None:
        """Submit rows of which some delete their keys, in their order."""
        assert self.mixes_deletes
        await self.pipeline.put(plan.Change(deletes), batch)

    async def flush(self) -> Receipt:
        """Wait for everything submitted since the last flush; raise the first failure."""
        return await self.pipeline.flush()

    def _upsert(self, columns: Sequence[str] | None) -> plan.Upsert:
        kind = plan.Upsert(None if columns is None else tuple(columns))
        target_columns(self._table.schema, kind.columns)
        return kind
