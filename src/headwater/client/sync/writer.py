"""A pipelined writer for callers that do not await."""

from types import TracebackType
from typing import Self

from headwater.client.keys_in import KeysLike
from headwater.client.rows_in import RowsLike
from headwater.client.showing import shown
from headwater.client.writer import AsyncWriter
from headwater.client.writing.receipts import Receipt
from headwater.runtime.loops import LoopThread


class Writer:
    """Send rows without waiting for each; leaving the `with` block waits for all of them."""

    def __init__(self, loop: LoopThread, writer: AsyncWriter) -> None:
        self._loop = loop
        self._writer = writer

    def __repr__(self) -> str:
        return shown(self, self._writer.name)

    def write(self, rows: RowsLike) -> None:
        """Append rows, or upsert them where the table has a primary key."""
        self._loop.run(self._writer.write(rows))

    def delete(self, keys: KeysLike) -> None:
        """Delete rows by key, after what was written before."""
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
        if kind is None:
            self.flush()
