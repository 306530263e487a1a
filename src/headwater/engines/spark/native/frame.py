"""The rows of a view as a data frame: files that Spark reads, and what is newer than they are."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.client.reading.filters import Filter
from headwater.client.union.split import FileGroup, NativePlan
from headwater.client.union.view import TableView
from headwater.client.union.viewing import AsyncView
from headwater.engines.spark.native.conditions import condition_of, quoted
from headwater.engines.spark.native.files import frame_of_files
from headwater.engines.spark.native.tails import Tails
from headwater.engines.spark.reading.views import named_partitions
from headwater.engines.spark.source_options import SourceOptions

# More changes than this are not sent to every worker; Spark decides how to leave their keys out.
BROADCAST_CHANGES_MAX = 5_000_000


class NativeFrame:
    """Put a data frame together, in which nothing is read yet."""

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
        self._tails = Tails(
            spark=spark,
            link=self._link,
            view=self._view,
            columns=self._needed,
            options=given,
            truncates_nanoseconds=options.truncates_nanoseconds,
        )

    def build(self) -> DataFrame:
        """Return the rows.

        1. Plan, which by key folds the changes of the logs. 2. Let Spark read the files, without
        rows that were changed since. 3. Add the rest. 4. Apply filter and columns to all of it.
        """
        parts = list(self._parts(self._plan)) or [self._tails.nothing()]
        rows = reduce(DataFrame.unionAll, parts)
        if self._filter is not None:
            rows = rows.filter(condition_of(self._filter))
        return rows if self._needed == self._output else rows.select(*map(quoted, self._output))

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
        return frame_of_files(self._spark, group, columns)

    def _unchanged(self, group: FileGroup, plan: NativePlan) -> DataFrame:
        rows = self._files(group, also=plan.key)
        left = rows.join(self._changed_keys, on=list(plan.key), how="left_anti")
        return left.select(*map(quoted, self._needed))

    @cached_property
    def _changed_keys(self) -> DataFrame:
        found = self._tails.changed_keys(self._plan.tail, self._plan.key)
        changes = sum(split.log.end - split.log.start for split in self._plan.tail if split.log)
        return f.broadcast(found) if changes <= BROADCAST_CHANGES_MAX else found


def _joined(groups: Iterable[FileGroup]) -> Iterator[FileGroup]:
    """Yield files of all buckets together, as one read of many files costs least."""
    found: dict[object, list[FileGroup]] = {}
    for group in groups:
        kind = (group.names, bool(group.files[0].deletes), group.is_touched)
        found.setdefault(kind, []).append(group)
    for alike in found.values():
        files = tuple(file for group in alike for file in group.files)
        yield FileGroup(files=files, is_touched=alike[0].is_touched)
