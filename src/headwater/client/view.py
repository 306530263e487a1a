"""A table at one position, async: plan, read, and pass the position on."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing

import pyarrow as pa

from headwater.client.scan import AsyncScan
from headwater.cluster.cluster import Cluster
from headwater.errors import LakeSnapshotMissingError, RequestError
from headwater.lake.split import LakeFile, LakeSplit
from headwater.model import LakeBucket, OffsetRange, TableInfo, TablePath
from headwater.model.arrow import arrow_schema
from headwater.model.path import complete_spec, name_of_spec
from headwater.model.types import DoubleType, FloatType
from headwater.read.explain import Explanation, explained
from headwater.read.filters import Filter, RowView, Where
from headwater.read.lake import LakePlans
from headwater.read.log_ranges import LogRanges
from headwater.read.offsets import Offsets, Place
from headwater.read.plan import LOCAL_ONLY, ReadSelection, native_plan, plan_read
from headwater.read.polls import FetchSize
from headwater.read.reader import UnionReader
from headwater.read.split import Hybrid, LogRange, NativePlan, ReadPlan, UnionSplit, known_splits
from headwater.read.tails import FoldedTail
from headwater.read.token import token_text
from headwater.read.view import TableView, lost_snapshot
from headwater.rows.columns import chosen, shown

# One row of each bucket is enough; servers send the whole batch that it is in.
_PEEK = FetchSize(1024**2, 16 * 1024)
_MS = 1000


async def lag_s(cluster: Cluster, view: TableView) -> float:
    """Return the seconds since the oldest row was written that is not in the lake."""
    oldest = await oldest_ms(cluster, view.table, _waiting(view), partitions=view.partitions)
    return 0.0 if oldest is None else max(cluster.clock.now_ms() - oldest, 0) / _MS


async def oldest_ms(
    cluster: Cluster,
    table: TableInfo,
    waiting: Mapping[LakeBucket, OffsetRange],
    *,
    partitions: Mapping[int, str],
) -> int | None:
    """Return when the oldest row waiting in the logs was written; None if there are none."""
    first: list[LogRange] = []
    for each, offsets in waiting.items():
        name = None if each.partition_id is None else partitions[each.partition_id]
        one = OffsetRange(offsets.start, offsets.start + 1)
        first.append(LogRange.of(Place(name, each.bucket), each, one))
    reader = LogRanges(cluster, RowView.of(table), size=_PEEK, forgets_dropped=True)
    async with aclosing(reader.read(first)) as batches:
        times = [batch.first_timestamp_ms async for batch in batches]
    return min(times, default=None)


def _waiting(view: TableView) -> dict[LakeBucket, OffsetRange]:
    held = {} if view.snapshot is None else view.snapshot.ranges
    waiting: dict[LakeBucket, OffsetRange] = {}
    for bucket, log in view.logs.items():
        start = max(held[bucket].end, log.start) if bucket in held else log.start
        if start < log.end:
            waiting[bucket] = OffsetRange(start, log.end)
    return waiting


Partitions = Iterable[Mapping[str, str]]


class AsyncView:
    """A table at one position: every read of it returns the same rows.

    Returned by `AsyncTable.view`, or made in another process from its value, which pickles.
    """

    def __init__(self, cluster: Cluster, value: TableView) -> None:
        self._cluster = cluster
        self._value = value
        self._held: dict[LakeBucket, FoldedTail] = {}
        cluster.know(value.table)

    @classmethod
    def of(cls, cluster: Cluster, value: TableView) -> "AsyncView":
        """Open the view of a value, possibly from another process."""
        return cls(cluster, value)

    def __repr__(self) -> str:
        snapshot = self._value.snapshot
        fields = {} if snapshot is None else {"snapshot": str(snapshot.snapshot_id)}
        return shown(self, str(self.path), **fields)

    @property
    def value(self) -> TableView:
        """What the view is made of; it pickles."""
        return self._value

    @property
    def path(self) -> TablePath:
        """Database and name of the table."""
        return self._value.table.path

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, with the columns at the position."""
        return arrow_schema(self._value.table.schema)

    @property
    def offsets(self) -> Offsets:
        """Where the view ends in each bucket, which is where a tail continues."""
        found: dict[Place, int] = {}
        for each, log in self._value.logs.items():
            number = each.partition_id
            name = None if number is None else self._value.partitions[number]
            found[Place(name, each.bucket)] = log.end
        return found

    def token(self) -> str:
        """Return the position as text that every engine accepts."""
        return token_text(self._value)

    # ---- planning

    async def plan(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Partitions | None = None,
        limit: int | None = None,
    ) -> ReadPlan:
        """Plan the splits that can contain matching rows."""
        wanted = self._wanted(columns, where)
        return await self._plan(wanted.filter, partitions, limit=limit)

    async def native_plan(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Partitions | None = None,
        schemes: frozenset[str] = LOCAL_ONLY,
    ) -> NativePlan:
        """Plan the splits, divided for an engine that reads Parquet files itself.

        For keyed tables this reads the changes since the snapshot, to see which files they touch;
        they are kept with the view for `tail_rows` and `changed_keys`.
        """
        wanted = self._wanted(columns, where)
        plan = await self._plan(wanted.filter, partitions, limit=None)
        # The tails are read next, so they are kept with the view.
        for split in plan.splits:
            if isinstance(split, Hybrid):
                folded = await self._reader(wanted).folded(split.tail)
                self._held[split.tail.log_bucket] = folded

        def is_touched(split: Hybrid, file: LakeFile) -> bool:
            return self._held[split.tail.log_bucket].folded.may_touch(file)

        schema = self._value.table.schema
        kinds = [schema.column(name).type for name in schema.primary_key]
        return native_plan(
            plan,
            key=schema.primary_key,
            is_touched=is_touched,
            schemes=schemes,
            tells_keys_apart=not any(isinstance(kind, FloatType | DoubleType) for kind in kinds),
        )

    async def _plan(
        self, wanted: Filter | None, partitions: Partitions | None, *, limit: int | None
    ) -> ReadPlan:
        lake: Sequence[LakeSplit] = ()
        table, snapshot = self._value.table, self._value.snapshot
        if snapshot is not None:
            lake = await self._lake_splits(table, snapshot.snapshot_id)
        names = None if partitions is None else self._names(partitions)
        selection = ReadSelection(filter=wanted, partitions=names, limit=limit)
        return plan_read(self._value, lake, selection)

    async def _lake_splits(self, table: TableInfo, snapshot_id: int) -> Sequence[LakeSplit]:
        try:
            return (await LakePlans.of(self._cluster).plan(table, snapshot_id)).splits
        except LakeSnapshotMissingError as fault:
            # It existed when the view was taken.
            raise lost_snapshot(table, snapshot_id) from fault

    def _names(self, partitions: Partitions) -> frozenset[str]:
        keys = self._value.table.descriptor.partition_keys
        return frozenset(name_of_spec(complete_spec(spec, keys)) for spec in partitions)

    async def explain(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Partitions | None = None,
    ) -> Explanation:
        """Explain what a read of the view does: tiers, files, offsets, what is skipped, and why."""
        wanted = self._wanted(columns, where)
        plan = await self._plan(wanted.filter, partitions, limit=None)
        return explained(
            self._value,
            plan,
            columns=wanted.names,
            lag_s=await lag_s(self._cluster, self._value),
            now_ms=self._cluster.clock.now_ms(),
            filter=wanted.filter,
        )

    # ---- reading

    def scan(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        partitions: Partitions | None = None,
    ) -> AsyncScan:
        """Read the rows of exactly this view, as often as you like."""
        wanted = self._wanted(columns, where)
        within = None if partitions is None else list(partitions)
        return AsyncScan(
            _ViewScan(self, wanted, partitions=within, limit=limit),
            name=str(self.path),
            explain=lambda: self.explain(columns=columns, where=where, partitions=within),
        )

    async def read(
        self,
        splits: Iterable[UnionSplit],
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of splits: merged, filtered and projected."""
        reader = self._reader(self._wanted(columns, where))
        async with aclosing(reader.batches(known_splits(splits), limit=limit)) as batches:
            async for batch in batches:
                yield batch

    async def tail_rows(
        self, splits: Iterable[UnionSplit], *, columns: str | Sequence[str] | None = None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of the log part of splits; by key what the changes result in."""
        reader = self._reader(self._wanted(columns, None))
        async with aclosing(reader.tail_batches(known_splits(splits))) as batches:
            async for batch in batches:
                yield batch

    async def changed_keys(self, splits: Iterable[UnionSplit]) -> pa.Table:
        """The keys of rows that the log part of HYBRID splits changes, to leave out of the lake.

        Keys that the lake cannot hold are not among them, as far as that is known.
        """
        key = self._value.table.schema.primary_key
        wanted = RowView.of(self._value.table, columns=key)
        reader = self._reader(wanted)
        found = [
            (await reader.folded(split.tail)).folded.changed_keys()
            for split in known_splits(splits)
            if isinstance(split, Hybrid)
        ]
        return pa.concat_tables([wanted.schema.empty_table(), *found])

    async def rows(
        self, wanted: RowView, *, partitions: Partitions | None, limit: int | None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Plan and yield the matching rows of the view."""
        plan = await self._plan(wanted.filter, partitions, limit=limit)
        async with aclosing(self._reader(wanted).batches(plan.splits, limit=limit)) as batches:
            async for batch in batches:
                yield batch

    def _reader(self, wanted: RowView) -> UnionReader:
        return UnionReader(self._cluster, wanted, held=self._held)

    def _wanted(self, columns: str | Sequence[str] | None, where: Where | None) -> RowView:
        return RowView.of(self._value.table, columns=chosen(columns), where=where)


class _ViewScan:
    """Rows of a view, read on demand."""

    def __init__(
        self,
        view: AsyncView,
        wanted: RowView,
        *,
        partitions: Partitions | None,
        limit: int | None,
    ) -> None:
        check_limit(limit)
        self._view = view
        self._wanted = wanted
        self._partitions = partitions
        self._limit = limit

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._wanted.schema

    @property
    def offsets(self) -> Offsets:
        """Where the view ends in each bucket."""
        return self._view.offsets

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows."""
        batches = self._view.rows(self._wanted, partitions=self._partitions, limit=self._limit)
        async with aclosing(batches) as found:
            async for batch in found:
                yield batch


def check_limit(limit: int | None) -> None:
    """Refuse a negative limit."""
    if limit is not None and limit < 0:
        raise RequestError(f"The limit is {limit}; it must not be negative.")
