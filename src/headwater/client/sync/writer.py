"""A writer for callers that do not await."""

from types import TracebackType
from typing import Self

from headwater.client.keys_in import KeysLike
from headwater.client.rows_in import RowsLike
from headwater.client.showing import shown
from headwater.client.writer import AsyncWriter
from headwater.client.writing.receipts import Receipt
from headwater.runtime.loops import LoopThread


class Writer:
    """Send rows without waiting for each; leaving the `with` block waits for all of them.

    A single row (a dictionary, or a tuple of plain values) is held for a few milliseconds, until
    others have joined it; everything else is sent as it comes. Order is kept, and memory is
    bounded: a call waits while too many rows are on their way. What goes wrong after a call has
    returned is raised by the next call, by `flush`, or when the block is left, and says what was
    written.
    """

    def __init__(self, loop: LoopThread, writer: AsyncWriter) -> None:
        self._loop = loop
        self._writer = writer

    def __repr__(self) -> str:
        return shown(self, self._writer.name)

    def write(self, rows: RowsLike) -> None:
        """Append rows, or upsert them where the table has a primary key."""
        # A row that can be held costs neither another thread nor a turn of the loop.
        if not self._writer.take(rows):
            self._loop.run(self._writer.write(rows))

    def append(self, rows: RowsLike) -> None:
        """Append rows to a log table."""
        self._writer.check_log()
        self.write(rows)

    def upsert(self, rows: RowsLike) -> None:
        """Insert rows, or replace those that have the same key."""
        self._writer.check_keyed("upserted")
        self.write(rows)

    def delete(self, keys: KeysLike) -> None:
        """Delete rows by key, after what was written before."""
        self._writer.check_keyed("deleted")
        if not self._writer.take_delete(keys):
            self._loop.run(self._writer.delete(keys))

    def flush(self) -> Receipt:
        """Wait until everything so far is on disk, or raise what went wrong."""
        return self._loop.run(self._writer.flush())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.run(self._writer.__aexit__(kind, fault, trace))
