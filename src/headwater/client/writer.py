"""A writer that sends many pieces without waiting for each."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater.client.keys_in import KeysLike, keys_in
from headwater.client.rows_in import RowsLike, Wanted
from headwater.client.showing import shown
from headwater.client.taking import batches_of
from headwater.client.writing.appender import Appender
from headwater.client.writing.receipts import Receipt
from headwater.client.writing.upserter import Upserter
from headwater.errors import NotPrimaryKeyTableError


class AsyncWriter:
    """Send rows to one table; small pieces travel together, and order is kept.

    Leaving the `async with` block waits until everything is on disk, or raises what went wrong.
    """

    def __init__(
        self, writer: Appender | Upserter, schema: pa.Schema, *, key: Sequence[str], name: str
    ) -> None:
        self.name = name
        self._writer = writer
        self._key = tuple(key)
        self._rows = Wanted.of(schema)
        self._keys = Wanted.of(schema, columns=self._key)

    def __repr__(self) -> str:
        return shown(self, self.name)

    async def write(self, rows: RowsLike) -> None:
        """Append rows, or upsert them where the table has a primary key."""
        async for batch in batches_of(rows, self._rows):
            await self._writer.submit(batch)

    async def delete(self, keys: KeysLike) -> None:
        """Delete rows by key, after what was written before."""
        if not isinstance(self._writer, Upserter):
            raise NotPrimaryKeyTableError(
                "Rows are deleted by key, and this table has none.", hint="Drop what holds them."
            )
        async for batch in batches_of(keys_in(keys, self._key), self._keys):
            await self._writer.submit_delete(batch)

    async def flush(self) -> Receipt:
        """Wait until everything so far is on disk; raise the first thing that went wrong."""
        return await self._writer.flush()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.flush()
