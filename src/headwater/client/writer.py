"""A writer that accepts rows without waiting for each, and sends many of them at once."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater import errors
from headwater.rows.columns import shown
from headwater.write import rows_in
from headwater.write.pipeline import Appender, Upserter
from headwater.write.receipts import Receipt
from headwater.write.row_buffer import RowBuffer, RowParser, RowRun
from headwater.write.rows_in import KeysLike, RowsLike
from headwater.write.target import WriteContext


class AsyncWriter:
    """Send rows to one table; rows that come one by one are batched, and order is kept.

    A single row (a dictionary, or a tuple of plain values) is held for a few milliseconds, until
    others have joined it; everything else is sent as it comes. Memory is bounded: a call waits
    while too many rows are in flight. An error after a call has returned is raised by the next
    call, by `flush`, or at the end of the block, and says what was written. Leaving the `async
    with` block waits until everything is on disk.
    """

    def __init__(
        self,
        writer: Appender | Upserter,
        writers: WriteContext,
        schema: pa.Schema,
        *,
        key: Sequence[str],
        name: str,
    ) -> None:
        self.name = name
        settings = writers.cluster.settings
        self._writer = writer
        self._work = writers.work
        self._key = tuple(key)
        self._rows = rows_in.WantedSchema.of(schema)
        self._keys = rows_in.WantedSchema.of(schema, columns=self._key)
        self._row_form = RowParser(self._rows)
        self._key_form = RowParser(self._keys) if self._key else None
        self._held = RowBuffer(
            self._row_form,
            rows_max=settings.batch_rows_max,
            bytes_max=settings.batch_bytes_max,
            mixes_deletes=isinstance(writer, Upserter) and writer.mixes_deletes,
        )
        self._timeout_s = settings.batch_timeout_ms / 1000
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cutting = asyncio.Lock()
        self._gathering: asyncio.Task[None] | None = None
        self._refused: errors.InvalidValueError | None = None

    def __repr__(self) -> str:
        return shown(self, self.name)

    # ---- accepting single rows, in any thread

    def take(self, rows: RowsLike) -> bool:
        """Hold a single row if that needs no waiting; otherwise leave it to `write`."""
        return self._hold(self._row_form, rows)

    def take_delete(self, keys: KeysLike) -> bool:
        """Hold a single key if that needs no waiting; otherwise leave it to `delete`."""
        form = self._key_form
        if form is None or isinstance(keys, tuple):
            return False
        if len(self._key) == 1 and isinstance(keys, rows_in.Scalar):
            keys = {self._key[0]: keys}
        return self._hold(form, keys)

    def _hold(self, form: RowParser, row: object) -> bool:
        if self._loop is None or self._held.is_full or self._writer.pipeline.has_failed:
            return False
        taken = form.taken(row)
        if taken is None:
            return False
        values, size = taken
        deletes = form is self._key_form
        if deletes:
            values = self._row_form.widened(form, values)
        if self._held.add(values, size, deletes=deletes):
            try:
                self._loop.call_soon_threadsafe(self._begin)
            except RuntimeError:
                raise errors.ClosedError("The client is closed, so the writer is too.") from None
        return True

    # ---- writing

    async def write(self, rows: RowsLike) -> None:
        """Append rows, or upsert them if the table has a primary key."""
        if self.take(rows):
            return
        await self._ready()
        if self.take(rows):
            return
        async for batch in rows_in.batches_of(rows, self._rows):
            await self._cut()
            await self._check()
            await self._writer.put(batch)

    async def append(self, rows: RowsLike) -> None:
        """Append rows to a log table."""
        self.check_log()
        await self.write(rows)

    async def upsert(self, rows: RowsLike) -> None:
        """Insert rows, or replace those with the same key."""
        self.check_keyed("upserted")
        await self.write(rows)

    async def delete(self, keys: KeysLike) -> None:
        """Delete rows by key, after everything written before."""
        self.check_keyed("deleted")
        if self.take_delete(keys):
            return
        await self._ready()
        if self.take_delete(keys):
            return
        assert isinstance(self._writer, Upserter)
        async for batch in rows_in.batches_of(rows_in.keys_in(keys, self._key), self._keys):
            await self._cut()
            await self._check()
            await self._writer.put_delete(batch)

    def check_log(self) -> None:
        """Reject appends to a table with a primary key."""
        if self._key:
            raise errors.RequestError(
                f"{self.name} has a primary key, so rows cannot be appended to it.",
                hint="Use upsert.",
            )

    def check_keyed(self, done: str) -> None:
        """Reject what needs a primary key."""
        if not self._key:
            raise errors.NotPrimaryKeyTableError(
                f"Rows are {done} by key, but {self.name} has no primary key.",
                hint="Append rows; drop the table or its partitions to remove them.",
            )

    async def flush(self) -> Receipt:
        """Wait until everything so far is on disk; raise the first error."""
        await self._cut()
        self._refused = None
        return await self._writer.flush()

    async def _ready(self) -> None:
        """Wait for memory for more rows, and raise earlier errors."""
        self._loop = asyncio.get_running_loop()
        if self._held.is_full:
            await self._cut()
        await self._check()

    async def _check(self) -> None:
        if self._writer.pipeline.has_failed:
            await self.flush()

    # ---- sending held rows, on the loop

    def _begin(self) -> None:
        if self._gathering is None or self._gathering.done():
            self._gathering = self._work.gather(self._gather(), name="gather rows")

    async def _gather(self) -> None:
        """Send a batch after a while, and the next one once it is written.

        So batches grow with the time that the storage takes for one.
        """
        while not self._held.is_empty:
            await self._work.linger(self._timeout_s)
            await self._cut()
            await self._writer.pipeline.settle()

    async def _cut(self) -> None:
        """Send what is held; cancelling the caller does not cancel that."""
        if not self._held.is_empty or self._cutting.locked():
            await asyncio.shield(self._work.start(self._send_held(), name="cut a batch"))

    async def _send_held(self) -> None:
        async with self._cutting:
            for run in self._held.cut():
                await self._send(run)

    async def _send(self, run: RowRun) -> None:
        """Send rows, up to the first that cannot be written."""
        if self._refused is not None:
            self._writer.pipeline.refuse(len(run.rows), self._refused)
            return
        is_quick = len(run.rows) <= rows_in.INLINE_ROWS_MAX
        batch, fault = run.batch() if is_quick else await asyncio.to_thread(run.batch)
        if batch is not None:
            await self._put(batch, bytes(run.deletes[: batch.num_rows]))
        if fault is not None:
            self._refused = fault
            written = 0 if batch is None else batch.num_rows
            self._writer.pipeline.refuse(len(run.rows) - written, fault)

    async def _put(self, batch: pa.RecordBatch, deletes: bytes) -> None:
        if not any(deletes):
            await self._writer.put(batch)
            return
        assert isinstance(self._writer, Upserter)
        if all(deletes):
            await self._writer.put_delete(batch.select(self._key))
        else:
            await self._writer.put_changes(batch, deletes)

    # ---- as a context manager

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if fault is None:
            await self.flush()
        elif isinstance(fault, Exception):
            # Accepted rows are written anyway, and their outcome must not get lost.
            try:
                await self.flush()
            except errors.HeadwaterError as other:
                fault.add_note(f"The writer also failed: {other}")
