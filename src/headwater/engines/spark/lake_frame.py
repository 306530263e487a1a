"""A table with a lake as a data frame: Spark reads the files, we add what is newer."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headwater.client.sync.client import Client
from headwater.client.view import AsyncView
from headwater.engines.spark import lake_files
from headwater.engines.spark import options as spark_options
from headwater.engines.spark.clients import SparkLink
from headwater.engines.spark.read.selection import Reading
from headwater.engines.spark.read.splits import PlannedSplits, Share
from headwater.engines.spark.read.view import named_partitions, viewed
from headwater.engines.spark.source import FORMAT
from headwater.engines.spark.source_options import PLANNED, SourceOptions
from headwater.engines.spark.types import SparkBatches, spark_schema
from headwater.errors import RequestError
from headwater.read.filters import Filter, Where
from headwater.read.split import FileGroup, LogPart, NativePlan, Split, StateAt, rows_max_of
from headwater.read.token import token_text
from headwater.read.view import TableView
from headwater.rows.columns import chosen

# What the files lack: rows of the logs, the keys they change, splits for our readers.

# The driver hands up to this many rows to Spark; beyond that, tasks read them.
LOCAL_ROWS_MAX = 10_000
# The same, if Spark takes Arrow tables as they are instead of row by row.
LOCAL_ROWS_MAX_FAST = 500_000
_THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"


@dataclass(frozen=True, slots=True)
class TailFrames:
    """Makes data frames of parts of one view."""

    spark: SparkSession
    link: SparkLink
    view: AsyncView
    columns: tuple[str, ...]
    options: Mapping[str, str]
    """How tasks reach the servers."""
    truncates_nanoseconds: bool

    def tail(self, splits: Share) -> DataFrame:
        """The rows of the logs; for keyed tables, those that their changes left."""
        tails = _tails_of(splits)
        is_told = any(isinstance(tail, StateAt) for tail in tails)
        if is_told or sum(map(rows_max_of, tails)) > self._local_rows_max:
            return self._by_tasks(splits, is_tail=True)
        rows = self.link.loop.run(_gathered(self.view, splits, self.columns))
        return self._local(rows, self._schema(self.columns))

    def others(self, splits: Share) -> DataFrame:
        """All rows of splits whose files Spark cannot read."""
        return self._by_tasks(splits, is_tail=False)

    def changed_keys(self, splits: Share, key: tuple[str, ...]) -> DataFrame:
        """The keys of rows that the logs changed."""
        found = self.link.loop.run(self.view.changed_keys(splits))
        return self._local(found.select(key).to_batches(), self._schema(key))

    def nothing(self) -> DataFrame:
        """An empty data frame."""
        return self._local([], self._schema(self.columns))

    def _by_tasks(self, splits: Share, *, is_tail: bool) -> DataFrame:
        kept = tuple(_tails_of(splits)) if is_tail else splits
        schema_id = self.view.value.table.schema_id
        planned = PlannedSplits(schema_id=schema_id, splits=kept, is_tail=is_tail)
        reader = self.spark.read.format(FORMAT).options(**self.options)
        reader = reader.option(PLANNED, planned.to_text()).schema(self._schema(self.columns))
        return reader.load()

    def _local(self, batches: list[pa.RecordBatch], schema: StructType) -> DataFrame:
        cast = SparkBatches(schema, truncates_nanoseconds=self.truncates_nanoseconds)
        rows = pa.Table.from_batches(map(cast.cast, batches), cast.schema)
        # Over Spark Connect an empty table needs an explicit schema.
        return self.spark.createDataFrame(rows) if rows.num_rows else self._empty(schema)

    def _empty(self, schema: StructType) -> DataFrame:
        return self.spark.createDataFrame([], schema)

    def _schema(self, columns: tuple[str, ...]) -> StructType:
        return spark_schema(self.view.schema, columns=columns, path=str(self.view.path))

    @property
    def _local_rows_max(self) -> int:
        is_fast = self.spark.conf.get(_THRESHOLD, None) == "0" and hasattr(self.spark, "_jvm")
        return LOCAL_ROWS_MAX_FAST if is_fast else LOCAL_ROWS_MAX


async def _gathered(
    view: AsyncView, splits: Share, columns: tuple[str, ...]
) -> list[pa.RecordBatch]:
    found: AsyncIterator[pa.RecordBatch]
    async with aclosing(view.tail_rows(splits, columns=columns)) as found:
        return [batch async for batch in found]


def _tails_of(splits: Iterable[Split]) -> list[LogPart]:
    """The log parts of splits, which are all that their reader needs."""
    return [split.tail for split in splits if split.tail is not None]


# The view as a data frame: files that Spark reads, and what is newer.

# More changes than this are not broadcast; Spark decides how to exclude their keys.
BROADCAST_CHANGES_MAX = 5_000_000


class NativeFrame:
    """Assembles a data frame; nothing is read yet."""

    def __init__(
        self,
        spark: SparkSession,
        view: TableView,
        options: SourceOptions,
        *,
        given: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._table = view.table
        self._options = options
        self._link = options.connection.link()
        self._view = AsyncView.of(self._link.awaiting.cluster, view)
        schema = view.table.schema
        self._filter = None if options.where is None else Filter.of(options.where, schema)
        looked_at = () if self._filter is None else self._filter.columns
        self._output = options.columns or schema.names
        self._needed = tuple(dict.fromkeys((*self._output, *looked_at)))
        self._tails = TailFrames(
            spark=spark,
            link=self._link,
            view=self._view,
            columns=self._needed,
            options=given,
            truncates_nanoseconds=options.truncates_nanoseconds,
        )

    def build(self) -> DataFrame:
        """Build the data frame.

        1. Plan; for keyed tables this folds the changes of the logs. 2. Let Spark read the files,
           without rows that were changed since. 3. Add the rest. 4. Apply filter and columns to all
           of it.
        """
        parts = list(self._parts(self._plan)) or [self._tails.nothing()]
        rows = reduce(DataFrame.unionAll, parts)
        if self._filter is not None:
            rows = rows.filter(lake_files.condition_of(self._filter))
        return (
            rows
            if self._needed == self._output
            else rows.select(*map(lake_files.quoted, self._output))
        )

    @cached_property
    def _plan(self) -> NativePlan:
        planning = self._view.native_plan(
            columns=self._needed,
            where=self._options.where,
            partitions=named_partitions(self._options, self._table),
        )
        return self._link.loop.run(planning)

    def _parts(self, plan: NativePlan) -> Iterator[DataFrame]:
        for group in _joined(plan.groups):
            yield self._files(group) if not group.is_touched else self._unchanged(group, plan)
        if plan.tail:
            yield self._tails.tail(plan.tail)
        if plan.others:
            yield self._tails.others(plan.others)

    def _files(self, group: FileGroup, *, also: tuple[str, ...] = ()) -> DataFrame:
        names = dict.fromkeys((*self._needed, *also))
        columns = [self._table.schema.column(name) for name in names]
        return lake_files.frame_of_files(self._spark, group, columns)

    def _unchanged(self, group: FileGroup, plan: NativePlan) -> DataFrame:
        rows = self._files(group, also=plan.key)
        left = rows.join(self._changed_keys, on=list(plan.key), how="left_anti")
        return left.select(*map(lake_files.quoted, self._needed))

    @cached_property
    def _changed_keys(self) -> DataFrame:
        found = self._tails.changed_keys(self._plan.tail, self._plan.key)
        changes = sum(map(rows_max_of, _tails_of(self._plan.tail)))
        return f.broadcast(found) if changes <= BROADCAST_CHANGES_MAX else found


def _joined(groups: Iterable[FileGroup]) -> Iterator[FileGroup]:
    """Merge the files of all buckets, as one read of many files is cheapest."""
    found: dict[object, list[FileGroup]] = {}
    for group in groups:
        kind = (group.names, bool(group.files[0].deletes), group.is_touched)
        found.setdefault(kind, []).append(group)
    for alike in found.values():
        files = tuple(file for group in alike for file in group.files)
        yield FileGroup(files=files, is_touched=alike[0].is_touched)


_MS = 1000


def read(  # noqa: PLR0913 - one argument per choice
    spark: SparkSession,
    table: str,
    *,
    at: str | Client = spark_options.SERVERS_DEFAULT,
    columns: str | Sequence[str] | None = None,
    where: Where | None = None,
    partitions: Sequence[str] | None = None,
    token: str | None = None,
    snapshot_id: int | None = None,
    as_of: datetime | int | None = None,
    offsets: Mapping[str, int] | None = None,
    mode: str = "union",
    lake: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a table as it is now, or at a position, with Spark itself reading its lake files.

        read(spark, "shop.orders", at="localhost:9123").groupBy("city").count()

    Spark reads lake files natively where it can, as Parquet with pushed-down columns and
    conditions. What was written since the lake's snapshot is added, and rows that were changed
    since are left out. The data frame is pinned: it shows the same rows however often it is used.
    The storage and the lake must be reachable from here under the same names as from Spark's
    workers. `columns`, `where` and `partitions` skip files before Spark sees them. A table without
    a lake is read like with `format("headwater")`. Options in `lake` override those that the server
    sends.
    """
    given = dict(options or {}) | {
        spark_options.SERVERS.name: _address(at),
        spark_options.TABLE.name: table,
    }
    given |= {} if lake is None else {spark_options.LAKE.name: json.dumps(dict(lake))}
    named = {
        spark_options.SCAN_MODE.name: mode,
        spark_options.TOKEN.name: token,
        spark_options.SNAPSHOT_ID.name: None if snapshot_id is None else str(snapshot_id),
        spark_options.TIMESTAMP_MILLIS.name: None if as_of is None else str(_millis(as_of)),
        spark_options.OFFSETS.name: None if offsets is None else json.dumps(dict(offsets)),
        spark_options.PARTITIONS.name: None if partitions is None else ",".join(partitions),
    }
    position = {name: text for name, text in named.items() if text is not None}
    wanted = replace(SourceOptions.of(given | position), columns=chosen(columns), where=where)
    whole, view = viewed(wanted)
    # Wrong columns or filters are reported before Spark is involved.
    spark_schema(whole.whole_schema, columns=wanted.columns, path=table)
    whole.filter()
    if view is None or view.snapshot is None:
        return _plain(spark, given | position, whole, columns=wanted.columns)
    if all(lake_files.is_read_by_spark(each.type) for each in whole.table.schema.columns):
        return NativeFrame(spark, view, wanted, given=given).build()
    # Pinned all the same: Spark resolves tables again whenever a data frame is planned.
    pinned = given | {spark_options.TOKEN.name: token_text(view)}
    within = {name: position[name] for name in (spark_options.PARTITIONS.name,) if name in position}
    return _plain(spark, pinned | within, whole, columns=wanted.columns)


def _plain(
    spark: SparkSession,
    given: Mapping[str, str],
    whole: Reading,
    *,
    columns: Sequence[str] | None,
) -> DataFrame:
    """A read by our own readers only."""
    output = columns or whole.whole_schema.names
    wanted = whole.filter()
    needed = dict.fromkeys((*output, *(() if wanted is None else wanted.columns)))
    schema = spark_schema(whole.whole_schema, columns=tuple(needed), path=whole.name)
    rows = spark.read.format(FORMAT).options(**given).schema(schema).load()
    if wanted is None:
        return rows
    return rows.filter(lake_files.condition_of(wanted)).select(*map(lake_files.quoted, output))


def _address(at: str | Client) -> str:
    if not isinstance(at, Client):
        return at
    if at.address is None:
        raise RequestError(
            "Other processes cannot reach this storage.",
            hint=(
                "Open it with headwater.open(…, listen=True), so that Spark's workers can reach it."
            ),
        )
    return at.address


def _millis(moment: datetime | int) -> int:
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise RequestError(f"{moment} has no time zone.", hint="Add one, e.g. tzinfo=datetime.UTC.")
    return int(moment.timestamp() * _MS)
