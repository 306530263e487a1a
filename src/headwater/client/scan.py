"""A scan: rows that are read on demand."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from headwater.errors import UnsupportedError
from headwater.model.type_json import Json
from headwater.read.offsets import Offsets
from headwater.rows.columns import few, shown
from headwater.rows.frames import polars_frame

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class BatchSource(Protocol):
    """Batches of one schema; each iteration reads again."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        ...

    @property
    def offsets(self) -> Offsets:
        """Where the last read ended in each bucket."""
        ...

    def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:  # noqa: PYI058 - to be closed
        """Yield the rows."""
        ...


class ScanExplanation(Protocol):
    """An explanation of a read; its text is for people."""

    def to_json(self) -> Mapping[str, Json]:
        """Convert the explanation to a document."""
        ...


Explain = Callable[[], Coroutine[object, object, ScanExplanation]]


class AsyncScan:
    """Rows that are read on demand, each time as they are then."""

    def __init__(self, source: BatchSource, *, name: str, explain: Explain | None = None) -> None:
        self.name = name
        self._source = source
        self._explain = explain

    def __repr__(self) -> str:
        return shown(self, self.name, columns=few(self.schema.names))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._source.schema

    @property
    def offsets(self) -> Offsets:
        """Where the last read ended in each bucket, which is where a tail continues."""
        return self._source.offsets

    async def explain(self) -> ScanExplanation:
        """Explain what a read does now: lake files, offsets of logs, what is skipped, and why."""
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
