"""Make the temporary views of a plan on Spark: tables, queries, lookups."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampNTZType, TimestampType

from headwater.config.options import LOG_TTL
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.lookup_join import lookup_join
from headwater.engines.spark.options import CHANGELOG, SERVERS
from headwater.errors import UnsupportedError
from headwater.pipelines.catalogs.spark import OF_SPARK
from headwater.pipelines.connectors.fluss import (
    LOOKUP_CACHE,
    LOOKUP_ROWS,
    LOOKUP_TTL,
    TABLE_NAME,
    LookupCache,
)
from headwater.pipelines.connectors.spi import (
    Connector,
    checked,
    connector,
    read_batch,
    read_streaming,
)
from headwater.pipelines.sql.names import DeclaredTable
from headwater.pipelines.sql.steps import (
    CHANGE_COLUMN,
    EventTime,
    FirstRows,
    LookupJoin,
    ReadTable,
    SqlView,
    VersionJoin,
    ViewStep,
)
from headwater.pipelines.tables import connector_table, quoted

Frames = dict[str, DataFrame]
_KEY = "__key_{}"
_ADDED = "__added_{}"
_FROM, _UNTIL = "__valid_from", "__valid_until"
_REACH = ("bootstrap.servers", "client.")


def connector_of(table: DeclaredTable) -> Connector:
    """The connector of a table."""
    return OF_SPARK if table.connector == OF_SPARK.name else connector(table.connector)


def make_views(spark: SparkSession, steps: Sequence[ViewStep]) -> Frames:
    """Make the views in order, each from those before it, and return their rows by name."""
    frames: Frames = {}
    for step in steps:
        rows = _rows(spark, step, frames)
        rows.createOrReplaceTempView(quoted(step.view))
        frames[step.view] = rows
    return frames


def drop_views(spark: SparkSession, steps: Sequence[ViewStep]) -> None:
    """Forget the views of a plan that is running: Spark has resolved their names."""
    if hasattr(spark, "_jsparkSession"):  # over Connect they are resolved when a query runs
        for step in steps:
            spark.catalog.dropTempView(step.view)


def _rows(spark: SparkSession, step: ViewStep, frames: Mapping[str, DataFrame]) -> DataFrame:
    match step:
        case ReadTable():
            return _table_rows(spark, step)
        case SqlView(sql=sql, watermark=watermark):
            return watermarked(spark.sql(sql), watermark)
        case LookupJoin():
            return _looked_up(frames[step.probe], step)
        case VersionJoin():
            return _versioned(spark, frames[step.probe], step)
        case FirstRows(rows=rows, keys=keys, within_watermark=True):
            return frames[rows].dropDuplicatesWithinWatermark(list(keys))
        case FirstRows(rows=rows, keys=keys):
            return frames[rows].dropDuplicates(list(keys))


def watermarked(rows: DataFrame, watermark: EventTime | None) -> DataFrame:
    """Apply a watermark to a stream. Spark wants a time with a zone for that."""
    if watermark is None or not rows.isStreaming:
        return rows
    name = watermark.column
    if isinstance(rows.schema[name].dataType, TimestampNTZType):
        rows = rows.withColumn(name, rows[quoted(name)].cast(TimestampType()))
    return rows.withWatermark(name, f"{watermark.delay_ms} milliseconds")


# Tables.


def _table_rows(spark: SparkSession, step: ReadTable) -> DataFrame:
    """Read a table, add its metadata and computed columns, apply its watermark."""
    of = connector_of(step.table)
    options = dict(step.options)
    if step.has_changes:
        options[CHANGELOG.name] = "true"
    if not step.is_streaming:  # those of a hint are meant for this query, and refused
        options = {k: v for k, v in options.items() if k in step.hints or k not in of.only_streams}
    needed = step.columns or connector_table(step.table, {}).schema.names[:1]
    table = connector_table(step.table, options, needed=needed)
    read = read_streaming if step.is_streaming else read_batch
    rows = read(spark, of, table)
    columns = [f.col(quoted(name)) for name in needed]
    columns += [_metadata(of, step, name, key) for name, key in step.metadata.items()]
    columns += [f.col(CHANGE_COLUMN)] if step.has_changes else []
    rows = rows.select(*columns)
    for name, expression in step.computed:
        rows = rows.withColumn(name, f.expr(expression))
    if step.has_changes and step.computed:
        rows = rows.select(*(quoted(n) for n in rows.columns if n != CHANGE_COLUMN), CHANGE_COLUMN)
    return watermarked(rows, step.watermark)


def _metadata(of: Connector, step: ReadTable, name: str, key: str) -> Column:
    if key not in of.metadata:
        raise UnsupportedError(
            f"The connector '{of.name}' has no metadata '{key}' ({step.table.name}).",
            hint=f"It has {', '.join(of.metadata) or 'none'}.",
        )
    return f.expr(of.metadata[key]).alias(name)


# Lookups.


def _looked_up(probe: DataFrame, step: LookupJoin) -> DataFrame:
    """Add columns of a table by key, looked up while each micro-batch runs."""
    keyed, names = _with_keys(probe, step.table, step.keys)
    options = checked(connector_of(step.table), connector_table(step.table, step.options)).options
    is_cached = LOOKUP_CACHE.required(options) is LookupCache.PARTIAL
    added = lookup_join(
        keyed,
        options[TABLE_NAME.name],
        on=names,
        how=step.kind.value,
        columns=tuple(step.columns),
        prefix=_ADDED.format(""),
        cache_rows=LOOKUP_ROWS.required(options) if is_cached else 0,
        cache_ttl=f"{LOOKUP_TTL.required(options)} ms",
        bootstrap_servers=options[SERVERS.name],
        options={name: text for name, text in options.items() if name.startswith("client.")},
    )
    renamed = [f.col(quoted(f"{_ADDED.format('')}{c}")).alias(n) for c, n in step.columns.items()]
    return added.select(*(f.col(quoted(name)) for name in probe.columns), *renamed)


def _with_keys(
    probe: DataFrame, table: DeclaredTable, keys: Mapping[str, str]
) -> tuple[DataFrame, dict[str, str]]:
    """Add the keys in the types of the table, and say which is which."""
    schema = connector_table(table, {}).schema
    names: dict[str, str] = {}
    for number, (given, key) in enumerate(keys.items()):
        name = _KEY.format(number)
        probe = probe.withColumn(name, f.col(quoted(given)).cast(schema[key].dataType))
        names[name] = key
    return probe, names


# Versions.


def _versioned(spark: SparkSession, probe: DataFrame, step: VersionJoin) -> DataFrame:
    """Add columns of a table as its rows were at a time of the probe, from its changelog."""
    _check_changelog(step)
    keyed, names = _with_keys(probe, step.table, step.keys)
    versions = _versions(spark, step)
    keyed = keyed.withColumn("__time", f.col(quoted(step.time)).cast(TimestampType()))
    is_same = [keyed[given] == versions[f"__of_{key}"] for given, key in names.items()]
    is_then = (keyed["__time"] >= versions[_FROM]) & (
        versions[_UNTIL].isNull() | (keyed["__time"] < versions[_UNTIL])
    )
    condition = is_then
    for each in is_same:
        condition = condition & each
    joined = keyed.join(versions, condition, step.kind.value)
    added = [versions[f"__of_{column}"].alias(name) for column, name in step.columns.items()]
    return joined.select(*(keyed[quoted(name)] for name in probe.columns), *added)


def _versions(spark: SparkSession, step: VersionJoin) -> DataFrame:
    """Each version of each row, with the times from and until which it was current.

    The time of a change is the column that the table declares a watermark for, or when the change
    was written. Of changes of one time the last one counts.
    """
    mark = step.table.watermark
    wanted = {*step.keys.values(), *step.columns, *step.table.key}
    wanted |= set() if mark is None else {mark.column}
    options = {
        name: text
        for name, text in step.options.items()
        if name == TABLE_NAME.name or name.startswith(_REACH)
    }
    table = connector_table(
        step.table, {**options, CHANGELOG.name: "true"}, needed=tuple(sorted(wanted))
    )
    of = connector_of(step.table)
    changes = read_batch(spark, of, table).filter(f"{CHANGE_COLUMN} <> 'update_before'")
    time = f.col("_commit_timestamp" if mark is None else quoted(mark.column))
    changes = changes.withColumn(_FROM, time.cast(TimestampType())).filter(f"{_FROM} IS NOT NULL")
    key = ", ".join(map(quoted, step.table.key))
    until = f"lead({_FROM}) OVER (PARTITION BY {key} ORDER BY {_FROM}, _log_offset)"
    versions = changes.withColumn(_UNTIL, f.expr(until)).filter(f"{CHANGE_COLUMN} <> 'delete'")
    columns = [f.col(quoted(name)).alias(f"__of_{name}") for name in sorted(wanted)]
    return versions.select(*columns, _FROM, _UNTIL)


def _check_changelog(step: VersionJoin) -> None:
    """Raise if the changelog has lost its beginning.

    Without it, rows that have not changed since are not in it at all.
    """
    reach = {name: text for name, text in step.options.items() if name.startswith(_REACH)}
    found = SparkConnection.of(reach).client().table(step.options[TABLE_NAME.name])
    name = step.table.name
    if any(found.offsets("earliest").values()):
        raise UnsupportedError(
            f"The changelog of {name} has lost its beginning, so which versions its rows had is "
            "not known.",
            hint="Join it as it is now: FOR SYSTEM_TIME AS OF a column that is PROCTIME(). A table "
            f"with '{LOG_TTL.name}' = '0 ms' keeps all its changes.",
        )
