"""A scan for callers that do not await."""

from collections.abc import AsyncGenerator, Generator, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.client.frames import polars_frame
from headwater.client.reading.log_batch import Offsets
from headwater.client.scan import AsyncScan, Explanation
from headwater.client.showing import few, shown
from headwater.runtime.loops import LoopThread

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Scan:
    """Rows that are read when they are asked for, each time as they are then.

    A scan is taken by everything that reads Arrow: `pl.DataFrame(scan)`, `pa.table(scan)`,
    `duckdb.from_arrow(scan.to_reader())`.
    """

    def __init__(self, loop: LoopThread, scan: AsyncScan) -> None:
        self._loop = loop
        self._scan = scan

    def __repr__(self) -> str:
        return shown(self, self._scan.name, columns=few(self.schema.names))

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._scan.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the last read ended in each bucket, which is where a tail goes on."""
        return self._scan.offsets

    def explain(self) -> Explanation:
        """Tell what a read does now: lake files, offsets of logs, what is left out, and why."""
        return self._loop.run(self._scan.explain())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows batch by batch, never all at once."""
        return taken(self._loop, self._scan.batches())

    def to_arrow(self) -> pa.Table:
        """Read all rows."""
        return self._loop.run(self._scan.to_arrow())

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows, for those who take one."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to another library without a copy."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pylist(self) -> list[dict[str, object]]:
        """Read all rows as dictionaries."""
        rows: list[dict[str, object]] = self.to_arrow().to_pylist()
        return rows

    def to_pandas(self) -> "pd.DataFrame":
        """Read all rows into a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "pl.DataFrame":
        """Read all rows into a Polars DataFrame."""
        return polars_frame(self.to_arrow())


def taken(
    loop: LoopThread, batches: AsyncGenerator[pa.RecordBatch, None]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield what a generator gives on its loop, and close it in the end."""
    try:
        while (batch := loop.run(_next(batches))) is not None:
            yield batch
    finally:
        # Not waited for: a scan that was left behind is ended by whoever collects garbage.
        loop.start(_close(batches))


async def _next(batches: AsyncGenerator[pa.RecordBatch, None]) -> pa.RecordBatch | None:
    return await anext(batches, None)


async def _close(batches: AsyncGenerator[pa.RecordBatch, None]) -> None:
    await batches.aclose()
