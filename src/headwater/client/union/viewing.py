"""A table at one position, for those who await: plan, read, and tell others where it is."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.column_names import chosen
from headwater.client.reading.filters import Filter, Where
from headwater.client.reading.log_batch import Offsets, Place
from headwater.client.reading.view import View
from headwater.client.scan import AsyncScan
from headwater.client.showing import shown
from headwater.client.union.explain import Explanation, explained
from headwater.client.union.lag import lag_s
from headwater.client.union.lake_plans import LakePlans
from headwater.client.union.native import LOCAL_ONLY, native_plan
from headwater.client.union.plan import Selection, plan_read
from headwater.client.union.reader import UnionReader
from headwater.client.union.refusals import lost_snapshot
from headwater.client.union.split import NativePlan, ReadPlan, Tier, UnionSplit
from headwater.client.union.tail_cache import FoldedTail
from headwater.client.union.token import token_text
from headwater.client.union.view import TableView
from headwater.errors import LakeSnapshotMissingError, RequestError
from headwater.lake.split import LakeFile, LakeSplit
from headwater.model.arrow import arrow_schema
from headwater.model.boundary import LakeBucket
from headwater.model.partition import complete_spec, name_of_spec
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.model.types import DoubleType, FloatType

Partitions = Iterable[Mapping[str, str]]


class AsyncView:
    """A table at one position: every read of it gives the same rows.

    Got from `AsyncTable.view`, or in another process from the value of one, which pickles.
    """

    def __init__(self, cluster: Cluster, value: TableView) -> None:
        self._cluster = cluster
        self._value = value
        self._held: dict[LakeBucket, FoldedTail] = {}
        cluster.know(value.table)

    @classmethod
    def of(cls, cluster: Cluster, value: TableView) -> "AsyncView":
        """Return the view of a value, which another process may have taken."""
        return cls(cluster, value)

    def __repr__(self) -> str:
        snapshot = self._value.snapshot
        fields = {} if snapshot is None else {"snapshot": str(snapshot.snapshot_id)}
        return shown(self, str(self.path), **fields)

    @property
    def value(self) -> TableView:
        """Return what the view is made of; it pickles."""
        return self._value

    @property
    def path(self) -> TablePath:
        """Return database and name of the table."""
        return self._value.table.path

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows, as the columns are at the position."""
        return arrow_schema(self._value.table.schema)

    @property
    def offsets(self) -> Offsets:
        """Return where the view ends in each bucket, which is where a tail goes on."""
        found: dict[Place, int] = {}
        for each, log in self._value.logs.items():
            number = each.partition_id
            name = None if number is None else self._value.partitions[number]
            found[Place(name, each.bucket)] = log.end
        return found

    def token(self) -> str:
        """Return the position as a text that every engine takes."""
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
        """Return the splits that can hold wanted rows."""
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
        """Return the splits, divided for an engine that reads Parquet files by itself."""
        wanted = self._wanted(columns, where)
        plan = await self._plan(wanted.filter, partitions, limit=None)
        # Whoever plans this way reads the tails next, so they are kept with the view.
        for split in plan.splits:
            if split.tier is Tier.HYBRID and split.log_bucket is not None:
                self._held[split.log_bucket] = await self._reader(wanted).folded(split)

        def is_touched(split: UnionSplit, file: LakeFile) -> bool:
            assert split.log_bucket is not None
            return self._held[split.log_bucket].folded.may_touch(file)

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
        selection = Selection(filter=wanted, partitions=names, limit=limit)
        return plan_read(self._value, lake, selection)

    async def _lake_splits(self, table: TableInfo, snapshot_id: int) -> Sequence[LakeSplit]:
        try:
            return (await LakePlans.of(self._cluster).plan(table, snapshot_id)).splits
        except LakeSnapshotMissingError as fault:
            # It was there when the view was taken.
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
        """Tell what a read of the view does: tiers, files, offsets, what is left out, and why."""
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
        """Return the rows of exactly this view, however often they are read."""
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
        async with aclosing(reader.batches(tuple(splits), limit=limit)) as batches:
            async for batch in batches:
                yield batch

    async def tail_rows(
        self, splits: Iterable[UnionSplit], *, columns: str | Sequence[str] | None = None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of the log part of splits; by key those that the changes leave."""
        reader = self._reader(self._wanted(columns, None))
        async with aclosing(reader.tail_batches(tuple(splits))) as batches:
            async for batch in batches:
                yield batch

    async def changed_keys(self, splits: Iterable[UnionSplit]) -> pa.Table:
        """Return the primary key of every row that the log part of HYBRID splits changes."""
        key = self._value.table.schema.primary_key
        wanted = View.of(self._value.table, columns=key)
        reader = self._reader(wanted)
        found = [
            (await reader.folded(split)).folded.changed_keys()
            for split in splits
            if split.tier is Tier.HYBRID
        ]
        return pa.concat_tables([wanted.schema.empty_table(), *found])

    async def rows(
        self, wanted: View, *, partitions: Partitions | None, limit: int | None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Plan and yield what is wanted of the view."""
        plan = await self._plan(wanted.filter, partitions, limit=limit)
        async with aclosing(self._reader(wanted).batches(plan.splits, limit=limit)) as batches:
            async for batch in batches:
                yield batch

    def _reader(self, wanted: View) -> UnionReader:
        return UnionReader(self._cluster, wanted, held=self._held)

    def _wanted(self, columns: str | Sequence[str] | None, where: Where | None) -> View:
        return View.of(self._value.table, columns=chosen(columns), where=where)


class _ViewScan:
    """Read a view as often as it is asked for."""

    def __init__(
        self,
        view: AsyncView,
        wanted: View,
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
        """Return the schema of the rows."""
        return self._wanted.schema

    @property
    def offsets(self) -> Offsets:
        """Return where the view ends in each bucket."""
        return self._view.offsets

    async def __aiter__(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows."""
        batches = self._view.rows(self._wanted, partitions=self._partitions, limit=self._limit)
        async with aclosing(batches) as found:
            async for batch in found:
                yield batch


def check_limit(limit: int | None) -> None:
    """Refuse a limit that is none."""
    if limit is not None and limit < 0:
        raise RequestError(f"The limit is {limit}, below 0.")
