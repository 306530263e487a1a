"""Write the rows of views into tables: in a batch, or as the queries of a job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from headwater.engines.spark.options import PARTIAL_UPDATE
from headwater.pipelines.connectors.spi import (
    ConnectorTable,
    OutputMode,
    StreamStart,
    checked,
    write_batch,
    write_streaming,
)
from headwater.pipelines.jobs import JobFolder
from headwater.pipelines.sql.steps import (
    CHANGE_COLUMN,
    DeleteRows,
    InsertRows,
    Plan,
    ReadTable,
    ResultMode,
)
from headwater.pipelines.tables import FLUSS, connector_table, quoted
from headwater.pipelines.views import connector_of

_MODES = {
    ResultMode.APPEND: OutputMode.APPEND,
    ResultMode.UPDATE: OutputMode.UPDATE,
    ResultMode.COMPLETE: OutputMode.COMPLETE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a job goes, and whether it ends."""

    interval_ms: int | None
    ends: bool


def pace_of(plan: Plan, *, interval_ms: int | None, once: bool) -> Pace:
    """A job ends if all its sources do; it looks for rows as often as the slowest of them says."""
    reads = [view for view in plan.views if isinstance(view, ReadTable) and view.is_streaming]
    streams = [
        (of, checked(of, connector_table(view.table, view.options)))
        for view in reads
        if (of := connector_of(view.table)).read_stream is not None
    ]
    paces = [pace for of, table in streams if (pace := of.pace_ms(table)) is not None]
    return Pace(
        interval_ms=max(paces, default=None) if interval_ms is None else interval_ms,
        ends=once or (bool(streams) and all(of.is_bounded(table) for of, table in streams)),
    )


def shaped(rows: DataFrame, write: InsertRows) -> DataFrame:
    """The rows with the columns of the table: those that are not written are null."""
    schema = connector_table(write.table, {}).schema
    given = {name.lower(): name for name in write.columns}
    columns = []
    for each in schema.fields:
        name = given.get(each.name.lower())
        if name is not None:
            columns.append(f.col(quoted(name)).cast(each.dataType).alias(each.name))
        elif not write.is_partial:
            columns.append(f.lit(None).cast(each.dataType).alias(each.name))
    if write.has_changes:
        columns.append(f.col(CHANGE_COLUMN))
    return rows.select(*columns)


def _target(write: InsertRows) -> ConnectorTable:
    options = dict(write.options or write.table.options)
    if write.is_partial and write.table.connector == FLUSS:
        options[PARTIAL_UPDATE.name] = "true"
    return connector_table(write.table, options)


def write_now(rows: DataFrame, write: InsertRows) -> None:
    """Write all rows of a batch."""
    of = connector_of(write.table)
    write_batch(shaped(rows, write), of, _target(write), overwrite=write.is_overwrite)


def start_queries(
    frames: Mapping[str, DataFrame], writes: Sequence[InsertRows], *, folder: JobFolder, pace: Pace
) -> tuple[StreamingQuery, ...]:
    """Start the queries of a job together; if one cannot start, none goes on."""
    started: list[StreamingQuery] = []
    try:
        for number, write in enumerate(writes):
            start = StreamStart(
                job=f"{folder.record.name}/run-{folder.record.run}/{number}",
                checkpoint=folder.checkpoint(number),
                mode=_MODES[write.mode],
                interval_ms=pace.interval_ms,
                ends=pace.ends,
                is_new=folder.is_new(number),
            )
            rows = shaped(frames[write.view], write)
            started.append(write_streaming(rows, connector_of(write.table), _target(write), start))
    except BaseException:
        for query in started:
            query.stop()
        raise
    return tuple(started)


def delete_now(keys: DataFrame, action: DeleteRows) -> None:
    """Delete rows by their keys."""
    rows = keys.withColumn(CHANGE_COLUMN, f.lit("delete"))
    write = InsertRows(
        view=action.view, table=action.table, columns=action.table.key, has_changes=True
    )
    write_now(rows, write)
