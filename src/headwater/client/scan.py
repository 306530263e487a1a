"""A scan: rows that are read when they are asked for."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from headwater.client.frames import polars_frame
from headwater.client.reading.log_batch import Offsets
from headwater.client.showing import few, shown
from headwater.errors import UnsupportedError
from headwater.model.type_json import Json

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class BatchSource(Protocol):
    """Read batches of one schema; each iteration is a read of its own."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        ...

    @property
    def offsets(self) -> Offsets:
        """Return where the last read ended in each bucket."""
        ...

    def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:  # noqa: PYI058 - to be closed
        """Yield the rows."""
        ...


class Explanation(Protocol):
    """Tell what a read does; its text is for people."""

    def to_json(self) -> Mapping[str, Json]:
        """Return the same as a document."""
        ...


Explain = Callable[[], Coroutine[object, object, Explanation]]


class AsyncScan:
    """Rows that are read when they are asked for, each time as they are then."""

    def __init__(self, source: BatchSource, *, name: str, explain: Explain | None = None) -> None:
        self.name = name
        self._source = source
        self._explain = explain

    def __repr__(self) -> str:
        return shown(self, self.name, columns=few(self.schema.names))

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._source.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the last read ended in each bucket, which is where a tail goes on."""
        return self._source.offsets

    async def explain(self) -> Explanation:
        """Tell what a read does now: lake files, offsets of logs, what is left out, and why."""
        if self._explain is None:
            raise UnsupportedError(f"There is nothing to explain about reading {self.name}.")
        return await self._explain()

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows batch by batch, never all at once."""
        return self.batches()

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows batch by batch; close the generator to end the scan early."""
        async with aclosing(aiter(self._source)) as batches:
            async for batch in batches:
                if batch.num_rows:
                    yield batch

    async def to_arrow(self) -> pa.Table:
        """Read all rows."""
        batches = [batch async for batch in self]
        return pa.Table.from_batches(batches, schema=self.schema)

    async def to_pylist(self) -> list[dict[str, object]]:
        """Read all rows as dictionaries."""
        table = await self.to_arrow()
        rows: list[dict[str, object]] = await asyncio.to_thread(table.to_pylist)
        return rows

    async def to_pandas(self) -> "pd.DataFrame":
        """Read all rows into a pandas DataFrame."""
        table = await self.to_arrow()
        return await asyncio.to_thread(table.to_pandas)

    async def to_polars(self) -> "pl.DataFrame":
        """Read all rows into a Polars DataFrame."""
        table = await self.to_arrow()
        return await asyncio.to_thread(polars_frame, table)
