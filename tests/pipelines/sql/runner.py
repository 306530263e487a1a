"""Run the steps of a plan on real Spark, with files of rows in the place of tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.pipelines.sql.names import DeclaredTable
from headwater.pipelines.sql.statements import PhysicalColumn
from headwater.pipelines.sql.steps import (
    EventTime,
    FirstRows,
    InsertRows,
    LookupJoin,
    Plan,
    ReadTable,
    ShowRows,
    SqlView,
    VersionJoin,
    ViewStep,
)
from headwater.pipelines.sql.types import quoted, spark_type


def schema_of(table: DeclaredTable) -> str:
    """The physical columns of a table, as Spark writes a schema."""
    columns = [each for each in table.columns if isinstance(each, PhysicalColumn)]
    return ", ".join(f"{quoted(each.name)} {spark_type(each.type)}" for each in columns)


@dataclass
class FileRunner:
    """Makes the views of plans; a table's rows are in a folder of its name, or it is empty."""

    spark: SparkSession
    folder: Path | None = None
    results: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)

    def make_views(self, plan: Plan) -> DataFrame:
        """Make all views, and return the last one."""
        for step in plan.views:
            self.frame(step).createOrReplaceTempView(step.view)
        return self.spark.table(plan.views[-1].view)

    def frame(self, step: ViewStep) -> DataFrame:
        match step:
            case ReadTable():
                return self.read(step)
            case SqlView():
                return watermarked(self.spark.sql(step.sql), step.watermark)
            case LookupJoin() | VersionJoin():
                return self.looked_up(step)
            case FirstRows():
                return self.spark.table(step.rows).dropDuplicates(list(step.keys))

    def read(self, step: ReadTable) -> DataFrame:
        frame = self.rows_of(step.table, streams=step.is_streaming)
        changes = ["'insert' AS _change_type"] if step.has_changes else []
        known = [f"CAST(NULL AS BIGINT) AS {quoted(each)}" for each in step.metadata]
        frame = frame.selectExpr(*map(quoted, step.columns), *known, *changes)
        for name, expression in step.computed:
            frame = frame.withColumn(name, f.expr(expression))
        return watermarked(frame, step.watermark)

    def rows_of(self, table: DeclaredTable, *, streams: bool) -> DataFrame:
        if self.folder is None:
            return self.spark.createDataFrame([], schema_of(table))
        path = str(self.folder / table.name.table)
        if streams:
            reader = self.spark.readStream.schema(schema_of(table))
            return reader.option("maxFilesPerTrigger", 1).parquet(path)
        return self.spark.read.schema(schema_of(table)).parquet(path)

    def looked_up(self, step: LookupJoin | VersionJoin) -> DataFrame:
        probe = self.spark.table(step.probe)
        rows = self.rows_of(step.table, streams=False)
        named = rows.select(
            *(f.col(quoted(old)).alias(new) for old, new in step.columns.items()),
            *(f.col(quoted(each)).alias("lookup__" + each) for each in step.keys.values()),
        )
        on = [probe[quoted(mine)] == named[f"`lookup__{each}`"] for mine, each in step.keys.items()]
        kept = [*probe.columns, *step.columns.values()]
        return probe.join(named, on, str(step.kind)).select(*map(quoted, kept))

    def run(self, plan: Plan, checkpoint: Path) -> list[tuple[object, ...]]:
        """Return the rows that end up in the sink, by key if it has one."""
        action = plan.action
        assert isinstance(action, InsertRows | ShowRows)
        frame = self.make_views(plan)
        if not action.is_streaming:
            return _folded([tuple(row) for row in frame.collect()], action, frame.columns)
        rows: list[tuple[object, ...]] = []

        def take(batch: DataFrame, _number: int) -> None:
            rows.extend(tuple(row) for row in batch.collect())

        query = frame.writeStream.outputMode(str(action.mode)).foreachBatch(take)
        query.option("checkpointLocation", str(checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()
        return _folded(rows, action, frame.columns)


def watermarked(frame: DataFrame, time: EventTime | None) -> DataFrame:
    """Apply a watermark, for which Spark wants an instant."""
    if time is None or not frame.isStreaming:
        return frame
    instant = f.col(quoted(time.column)).cast("timestamp")
    timed = frame.withColumn(time.column, instant)
    return timed.withWatermark(time.column, f"{time.delay_ms} milliseconds")


def _folded(
    rows: list[tuple[object, ...]], action: InsertRows | ShowRows, columns: list[str]
) -> list[tuple[object, ...]]:
    """The last row of each key, as a table by key would have them."""
    if not action.key:
        return rows
    at = [columns.index(each) for each in action.key]
    held: Mapping[tuple[object, ...], tuple[object, ...]] = {
        tuple(row[each] for each in at): row for row in rows
    }
    return list(held.values())
