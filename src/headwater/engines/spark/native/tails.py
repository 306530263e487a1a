"""What files do not hold of a view: rows of the logs, the keys they change, splits for readers."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.client.union.split import Tier, UnionSplit
from headwater.client.union.viewing import AsyncView
from headwater.engines.spark.clients import Link
from headwater.engines.spark.reading.planned import Planned
from headwater.engines.spark.reading.union_shares import UnionShare
from headwater.engines.spark.source import FORMAT
from headwater.engines.spark.source_options import PLANNED
from headwater.engines.spark.types import SparkBatches, spark_schema

# Rows that the driver hands to Spark itself; the tasks of more read them from the servers.
LOCAL_ROWS_MAX = 10_000
# The same where Spark takes Arrow tables as they are, instead of row by row.
LOCAL_ROWS_MAX_FAST = 500_000
_THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"


@dataclass(frozen=True, slots=True)
class Tails:
    """Make data frames of parts of one view."""

    spark: SparkSession
    link: Link
    view: AsyncView
    columns: tuple[str, ...]
    options: Mapping[str, str]
    """How tasks reach the servers."""
    truncates_nanoseconds: bool

    def tail(self, splits: UnionShare) -> DataFrame:
        """Return the rows of the logs; by key, those that their changes left."""
        changes = sum(split.log.end - split.log.start for split in splits if split.log)
        if changes > self._local_rows_max or any(split.reads_state for split in splits):
            return self._by_tasks(splits, is_tail=True)
        rows = self.link.loop.run(_gathered(self.view, splits, self.columns))
        return self._local(rows, self._schema(self.columns))

    def others(self, splits: UnionShare) -> DataFrame:
        """Return all rows of splits whose files Spark cannot read."""
        return self._by_tasks(splits, is_tail=False)

    def changed_keys(self, splits: UnionShare, key: tuple[str, ...]) -> DataFrame:
        """Return the keys of rows that the logs changed."""
        found = self.link.loop.run(self.view.changed_keys(splits))
        return self._local(found.select(key).to_batches(), self._schema(key))

    def nothing(self) -> DataFrame:
        """Return no rows."""
        return self._local([], self._schema(self.columns))

    def _by_tasks(self, splits: UnionShare, *, is_tail: bool) -> DataFrame:
        kept = tuple(map(_without_files, splits)) if is_tail else splits
        schema_id = self.view.value.table.schema_id
        planned = Planned(schema_id=schema_id, splits=kept, is_tail=is_tail)
        reader = self.spark.read.format(FORMAT).options(**self.options)
        reader = reader.option(PLANNED, planned.to_text()).schema(self._schema(self.columns))
        return reader.load()

    def _local(self, batches: list[pa.RecordBatch], schema: StructType) -> DataFrame:
        cast = SparkBatches(schema, truncates_nanoseconds=self.truncates_nanoseconds)
        rows = pa.Table.from_batches(map(cast.cast, batches), cast.schema)
        # Over Spark Connect an empty table needs to be told its columns.
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
    view: AsyncView, splits: UnionShare, columns: tuple[str, ...]
) -> list[pa.RecordBatch]:
    found: AsyncIterator[pa.RecordBatch]
    async with aclosing(view.tail_rows(splits, columns=columns)) as found:
        return [batch async for batch in found]


def _without_files(split: UnionSplit) -> UnionSplit:
    """Return the log part of a split, which is all that its reader has to know."""
    return replace(split, tier=Tier.LOG_ONLY, lake=None)
