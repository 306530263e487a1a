"""Blocking scans, and a table at one position."""

from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.client.scan import AsyncScan, ScanExplanation
from headwater.client.view import AsyncView
from headwater.model import TablePath
from headwater.read.explain import Explanation
from headwater.read.filters import Where
from headwater.read.offsets import Offsets
from headwater.read.plan import LOCAL_ONLY
from headwater.read.split import NativePlan, ReadPlan, UnionSplit
from headwater.read.view import TableView
from headwater.rows.columns import few, shown
from headwater.rows.frames import polars_frame
from headwater.runtime.loops import LoopThread

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# Scans.


class Scan:
    """Rows that are read on demand, each time as they are then.

    Everything that reads Arrow accepts a scan: `pl.DataFrame(scan)`, `pa.table(scan)`,
    `duckdb.from_arrow(scan.to_reader())`.
    """

    def __init__(self, loop: LoopThread, scan: AsyncScan) -> None:
        self._loop = loop
        self._scan = scan

    def __repr__(self) -> str:
        return shown(self, self._scan.name, columns=few(self.schema.names))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._scan.schema

    @property
    def offsets(self) -> Offsets:
        """Where the last read ended in each bucket, which is where a tail continues."""
        return self._scan.offsets

    def explain(self) -> ScanExplanation:
        """Explain what a read does now: lake files, offsets of logs, what is skipped, and why."""
        return self._loop.run(self._scan.explain())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows batch by batch, never all at once."""
        return taken(self._loop, self._scan.batches())

    def to_arrow(self) -> pa.Table:
        """Read all rows."""
        return self._loop.run(self._scan.to_arrow())

    def to_reader(self) -> pa.RecordBatchReader:
        """Open an Arrow reader of the rows."""
        # by hand: only callers that block can read on demand
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to another library without a copy."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pylist(self) -> list[dict[str, object]]:
        """Read all rows as dictionaries."""
        # by hand: converted in the caller's thread
        rows: list[dict[str, object]] = self.to_arrow().to_pylist()
        return rows

    def to_pandas(self) -> "pd.DataFrame":
        """Read all rows into a pandas DataFrame."""
        # by hand: converted in the caller's thread
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "pl.DataFrame":
        """Read all rows into a Polars DataFrame."""
        # by hand: converted in the caller's thread
        return polars_frame(self.to_arrow())


def taken(
    loop: LoopThread, batches: AsyncGenerator[pa.RecordBatch, None]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of an async generator, and close it at the end."""
    try:
        while (batch := loop.run(_next(batches))) is not None:
            yield batch
    finally:
        # Not waited for: an abandoned scan is closed by the garbage collector.
        loop.start(_close(batches))


async def _next(batches: AsyncGenerator[pa.RecordBatch, None]) -> pa.RecordBatch | None:
    return await anext(batches, None)


async def _close(batches: AsyncGenerator[pa.RecordBatch, None]) -> None:
    await batches.aclose()


# A table at one position.


class View:
    """A table at one position: every read of it returns the same rows.

    Made by `Table.view`. Its position is in `value`, which pickles, and in the text of
    `token()`, which every engine accepts.

    >>> trips = hw.create_table("trips", {"id": "BIGINT", "city": "STRING"})
    >>> trips.append([(1, "Ulm"), (2, "Bonn"), (3, "Ulm")]).rows
    3
    >>> view = trips.view()
    >>> list(view.offsets.values())
    [3]
    """

    def __init__(self, loop: LoopThread, view: AsyncView) -> None:
        self._loop = loop
        self._view = view

    def __repr__(self) -> str:
        snapshot = self.value.snapshot
        fields = {} if snapshot is None else {"snapshot": snapshot.snapshot_id}
        return shown(self, str(self.path), **fields)

    @property
    def value(self) -> TableView:
        """What the view is made of; it pickles."""
        return self._view.value

    @property
    def path(self) -> TablePath:
        """Database and name of the table."""
        return self._view.path

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, with the columns at the position."""
        return self._view.schema

    @property
    def offsets(self) -> Offsets:
        """Where the view ends in each bucket, which is where a tail continues."""
        return self._view.offsets

    def token(self) -> str:
        """Return the position as text that every engine accepts.

        >>> trips.append([(4, "Kiel")]).rows
        1
        >>> trips.scan(token=view.token()).to_arrow().num_rows
        3
        """
        return self._view.token()

    # ---- planning

    def plan(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Iterable[Mapping[str, str]] | None = None,
        limit: int | None = None,
    ) -> ReadPlan:
        """Plan the splits that can contain matching rows.

        >>> [(str(split.tier), split.bucket) for split in view.plan().splits]
        [('LOG_ONLY', 0)]
        """
        return self._loop.run(
            self._view.plan(columns=columns, where=where, partitions=partitions, limit=limit)
        )

    def native_plan(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Iterable[Mapping[str, str]] | None = None,
        schemes: frozenset[str] = LOCAL_ONLY,
    ) -> NativePlan:
        """Plan the splits, divided for an engine that reads Parquet files itself.

        For keyed tables this reads the changes since the snapshot, to see which files they touch;
        they are kept with the view for `tail_rows` and `changed_keys`.

        >>> plan = view.native_plan()
        >>> len(plan.groups), len(plan.tail), len(plan.others)
        (0, 1, 0)
        """
        return self._loop.run(
            self._view.native_plan(
                columns=columns, where=where, partitions=partitions, schemes=schemes
            )
        )

    def explain(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Iterable[Mapping[str, str]] | None = None,
    ) -> Explanation:
        """Explain what a read of the view does: tiers, files, offsets, what is skipped, and why.

        >>> print(view.explain(columns="city"))
        table  fluss.trips (schema 1): city
        ...
        """
        return self._loop.run(
            self._view.explain(columns=columns, where=where, partitions=partitions)
        )

    # ---- reading

    def scan(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        partitions: Iterable[Mapping[str, str]] | None = None,
    ) -> Scan:
        """Read the rows of exactly this view, as often as you like.

        >>> view.scan(columns="id", where=("city", "==", "Ulm")).to_pylist()
        [{'id': 1}, {'id': 3}]
        """
        found = self._view.scan(columns=columns, where=where, limit=limit, partitions=partitions)
        return Scan(self._loop, found)

    def read(
        self,
        splits: Iterable[UnionSplit],
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of splits: merged, filtered and projected.

        >>> sum(batch.num_rows for batch in view.read(view.plan().splits))
        3
        """
        found = self._view.read(splits, columns=columns, where=where, limit=limit)
        return taken(self._loop, found)

    def tail_rows(
        self, splits: Iterable[UnionSplit], *, columns: str | Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the log part of splits; by key what the changes result in.

        >>> [batch.num_rows for batch in view.tail_rows(plan.tail)]
        [3]
        """
        return taken(self._loop, self._view.tail_rows(splits, columns=columns))

    def changed_keys(self, splits: Iterable[UnionSplit]) -> pa.Table:
        """The keys of rows that the log part of HYBRID splits changes, to leave out of the lake.

        Keys that the lake cannot hold are not among them, as far as that is known.
        """
        return self._loop.run(self._view.changed_keys(splits))
