"""The connector `fluss`: a table of a Headwater server, or of an Apache Fluss cluster."""

from dataclasses import replace
from enum import StrEnum

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.config.values import DURATION, INT_MAX, TEXT, Option, choice, whole_number
from headwater.engines.spark.options import (
    CHANGELOG,
    COLUMNS,
    GROUP_ID,
    MAX_BYTES,
    MAX_ROWS,
    SERVERS,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    TABLE,
)
from headwater.engines.spark.sink import each_batch
from headwater.engines.spark.source import FORMAT
from headwater.errors import InvalidOptionError
from headwater.pipelines.connectors.console import each_micro_batch, triggered
from headwater.pipelines.connectors.spi import (
    Connector,
    ConnectorTable,
    OutputMode,
    StreamStart,
)


class LookupCache(StrEnum):
    """Whether lookup joins keep rows."""

    NONE = "none"
    PARTIAL = "partial"


class LookupAsync(StrEnum):
    """Lookups of one batch are never made one after the other."""

    ALWAYS = "true"


TABLE_NAME = Option(name="table.name", kind=TEXT, description="The table, as `database.table`.")
LOOKUP_CACHE = Option(
    name="lookup.cache",
    kind=choice(LookupCache),
    default="NONE",
    description="Whether a lookup join keeps rows from micro-batch to micro-batch: `PARTIAL` or "
    "`NONE`.",
)
LOOKUP_ROWS = Option(
    name="lookup.partial-cache.max-rows",
    kind=whole_number(low=1, high=INT_MAX),
    default="10000",
    description="How many keys each worker of a lookup join keeps, with the cache `PARTIAL`.",
)
LOOKUP_TTL = Option(
    name="lookup.partial-cache.expire-after-write",
    kind=DURATION,
    default="10 s",
    description="How old a kept row may be, with the cache `PARTIAL`.",
)
LOOKUP_ASYNC = Option(
    name="lookup.async",
    kind=choice(LookupAsync),
    default="true",
    description="Only `true`: a task always looks up all keys of a batch at once.",
)
LOOKUP_OPTIONS = (LOOKUP_CACHE, LOOKUP_ROWS, LOOKUP_TTL, LOOKUP_ASYNC)
CHANGE_COLUMNS = ("_change_type", "_log_offset", "_commit_timestamp")
_SINK_NAMES = {option.name for option in SINK_OPTIONS}
_SOURCE_NAMES = {option.name for option in SOURCE_OPTIONS}


def read_options(table: ConnectorTable) -> dict[str, str]:
    """What Spark's reader gets of the options of a table, with the columns that it needs."""
    given = {name: text for name, text in table.options.items() if name in _SOURCE_NAMES}
    needed = [name for name in table.schema.names if name in table.needed]
    if CHANGELOG.of(given):
        needed += list(CHANGE_COLUMNS)
    # Names in the option are separated by commas.
    if table.needed and COLUMNS.name not in given and not any("," in name for name in needed):
        given[COLUMNS.name] = ",".join(needed)
    return given


def write_options(table: ConnectorTable) -> dict[str, str]:
    """What Spark's writer gets of the options of a table."""
    return {name: text for name, text in table.options.items() if name in _SINK_NAMES}


def _path(table: ConnectorTable) -> str:
    named = table.options[TABLE_NAME.name]
    if "." not in named:
        raise InvalidOptionError(
            f"'{TABLE_NAME.name}' of {table.name} is '{named}', which names no database.",
            hint=f"Write '{TABLE_NAME.name}' = 'database.{named}'.",
        )
    return named


def _read(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    return spark.read.format(FORMAT).options(**read_options(table)).load(_path(table))


def _read_stream(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    return spark.readStream.format(FORMAT).options(**read_options(table)).load(_path(table))


def _write(rows: DataFrame, table: ConnectorTable) -> None:
    writer = rows.write.format(FORMAT).options(**write_options(table)).mode("append")
    writer.option(TABLE.name, _path(table)).save()


def _write_stream(rows: DataFrame, table: ConnectorTable, start: StreamStart) -> StreamingQuery:
    options = write_options(table)
    if start.mode is not OutputMode.APPEND:
        # Spark does not offer these modes to sinks in Python.
        servers = options.pop(SERVERS.name)
        write = each_batch(_path(table), name=start.job, bootstrap_servers=servers, options=options)
        return each_micro_batch(rows, write, start)
    writer = rows.writeStream.format(FORMAT).options(**options).option(TABLE.name, _path(table))
    return triggered(writer.outputMode(start.mode.value), start).start()


def _has_key(table: ConnectorTable) -> bool:
    return bool(table.primary_key)


_OPTIONS = {option.name: option for option in (*SOURCE_OPTIONS, *SINK_OPTIONS)}
del _OPTIONS[TABLE.name]

FLUSS = Connector(
    name="fluss",
    description="A table of a Headwater server or an Apache Fluss cluster, by its address.",
    options=(
        replace(_OPTIONS.pop(SERVERS.name), default=None),
        TABLE_NAME,
        *_OPTIONS.values(),
        *LOOKUP_OPTIONS,
    ),
    required=(SERVERS.name, TABLE_NAME.name),
    only_streams=frozenset(name for name in _SOURCE_NAMES if name.startswith("scan.startup."))
    | {GROUP_ID.name, MAX_ROWS.name, MAX_BYTES.name},
    metadata={"offset": "_log_offset", "timestamp": "_commit_timestamp"},
    read=_read,
    read_stream=_read_stream,
    write=_write,
    write_stream=_write_stream,
    takes_updates=_has_key,
)
