"""Writing without waiting for each batch: what is submitted meanwhile goes together."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

import pyarrow as pa

from headwater.client.writing.receipts import Delivery, Receipt, receipt_of
from headwater.client.writing.target import Target
from headwater.client.writing.writers import Writers
from headwater.errors import HeadwaterError

K = TypeVar("K")


class Pipeline(Generic[K]):
    """Hand batches on one after the other, small ones joined while those before are encoded."""

    def __init__(self, target: Target[K], writers: Writers) -> None:
        self._target = target
        self._writers = writers
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
            self._pump = self._writers.start(self._run(), name="write what was submitted")

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
            parts = await self._target.parts(kind, joined)
        except HeadwaterError as fault:
            if len(batches) == 1:
                self._delivery.refused(joined.num_rows, fault)
                return
            # Nothing was queued yet, so only those need to fail that are at fault.
            for batch in batches:
                await self._write(kind, [batch])
            return
        await self._target.submit(parts, self._delivery)
