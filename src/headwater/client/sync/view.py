"""A table at one position, for callers that do not await."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from headwater.client.reading.filters import Where
from headwater.client.reading.log_batch import Offsets
from headwater.client.showing import shown
from headwater.client.sync.scan import Scan, taken
from headwater.client.union.explain import Explanation
from headwater.client.union.native import LOCAL_ONLY
from headwater.client.union.split import NativePlan, ReadPlan, UnionSplit
from headwater.client.union.view import TableView
from headwater.client.union.viewing import AsyncView
from headwater.model.path import TablePath
from headwater.runtime.loops import LoopThread


class View:
    """A table at one position: every read of it gives the same rows.

    Got from `Table.view`. Where it is stands in `value`, which pickles, and in the text of
    `token()`, which every engine takes.

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
        """Return what the view is made of; it pickles."""
        return self._view.value

    @property
    def path(self) -> TablePath:
        """Return database and name of the table."""
        return self._view.path

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows, as the columns are at the position."""
        return self._view.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the view ends in each bucket, which is where a tail goes on."""
        return self._view.offsets

    def token(self) -> str:
        """Return the position as a text that every engine takes.

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
        """Return the splits that can hold wanted rows.

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
        """Return the splits, divided for an engine that reads Parquet files by itself.

        By key the changes since the snapshot are read for it, to tell which files they touch;
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
        """Tell what a read of the view does: tiers, files, offsets, what is left out, and why.

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
        """Return the rows of exactly this view, however often they are read.

        >>> view.scan(columns="id", where=("city", "==", "Ulm")).to_pylist()
        [{'id': 1}, {'id': 3}]
        """
        scan = self._view.scan(columns=columns, where=where, limit=limit, partitions=partitions)
        return Scan(self._loop, scan)

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
        rows = self._view.read(splits, columns=columns, where=where, limit=limit)
        return taken(self._loop, rows)

    def tail_rows(
        self, splits: Iterable[UnionSplit], *, columns: str | Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the log part of splits; by key those that the changes leave.

        >>> [batch.num_rows for batch in view.tail_rows(plan.tail)]
        [3]
        """
        return taken(self._loop, self._view.tail_rows(splits, columns=columns))

    def changed_keys(self, splits: Iterable[UnionSplit]) -> pa.Table:
        """Return the primary key of every row that the log part of HYBRID splits changes."""
        return self._loop.run(self._view.changed_keys(splits))
