"""The connector `fluss`: a table of a Headwater server, or of an Apache Fluss cluster."""

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.config.values import TEXT, Option
from headwater.engines.spark.options import SERVERS, SINK_OPTIONS, SOURCE_OPTIONS, TABLE
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

TABLE_NAME = Option(name="table.name", kind=TEXT, description="The table, as `database.table`.")
_SINK_NAMES = {option.name for option in SINK_OPTIONS}
_SOURCE_NAMES = {option.name for option in SOURCE_OPTIONS}


def read_options(table: ConnectorTable) -> dict[str, str]:
    """What Spark's reader gets of the options of a table."""
    return {name: text for name, text in table.options.items() if name in _SOURCE_NAMES}


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
    reader = spark.read.format(FORMAT).options(**read_options(table))
    return _declared(reader.load(_path(table)), table)


def _read_stream(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    reader = spark.readStream.format(FORMAT).options(**read_options(table))
    return _declared(reader.load(_path(table)), table)


def _declared(rows: DataFrame, table: ConnectorTable) -> DataFrame:
    """The columns that the statement declares; all of them if it declares none."""
    return rows.select(*(f"`{name}`" for name in table.schema.names)) if table.schema else rows


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
    ),
    required=(SERVERS.name, TABLE_NAME.name),
    read=_read,
    read_stream=_read_stream,
    write=_write,
    write_stream=_write_stream,
    takes_updates=_has_key,
)
