"""Watermarks: how late rows of a table may arrive, stored with the table for all readers.

The properties are those in which the Flink catalog of Apache Fluss stores `WATERMARK FOR`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampNTZType
from pyspark.sql.types import TimestampType as SparkTimestampType

from headwater.client.sync.table import Table
from headwater.config.values import DURATION
from headwater.engines.spark.options import SERVERS, SERVERS_DEFAULT
from headwater.engines.spark.source import FORMAT
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import InvalidOptionError, RequestError, UnsupportedError
from headwater.model import DataType
from headwater.model.types import TimestampLtzType, TimestampType
from headwater.read.virtual import split_virtual

COLUMN_PROPERTY = "schema.watermark.0.rowtime"
EXPRESSION_PROPERTY = "schema.watermark.0.strategy.expr"
TYPE_PROPERTY = "schema.watermark.0.strategy.data-type"
_UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_NAME = r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))"
_EXPRESSION = re.compile(
    rf"\s*{_NAME}\s*(?:-\s*INTERVAL\s+(?P<quote>'?)\s*(?P<count>\d+(?:\.\d{{1,9}})?)\s*(?P=quote)"
    r"\s*(?P<unit>[A-Z]+?)S?(?:\s*\(\d+\))?)?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The column with the event time of a row, and how much later the row may arrive."""

    column: str
    delay_ms: int


def set_watermark(table: Table, column: str, delay: str = "0 s") -> None:
    """Declare that rows of a table arrive at most `delay` after the time in `column`.

        set_watermark(clicks, "at", delay="30 seconds")

    It is stored in the table's properties, where the Flink catalog of Apache Fluss finds it too.
    `read_stream(…, watermark=True)` applies it.
    """
    delay_ms = DURATION.read(delay)
    if delay_ms is None:
        raise InvalidOptionError(
            f"'delay' cannot be {delay!r}.", hint=f"Expected {DURATION.expected}."
        )
    kind = _event_time(table, column)
    table.set_options(watermark_properties(Watermark(column, delay_ms), kind))


def drop_watermark(table: Table) -> None:
    """Remove what `set_watermark` declared."""
    held = table.info.descriptor.custom_properties
    known = (COLUMN_PROPERTY, EXPRESSION_PROPERTY, TYPE_PROPERTY)
    if keys := [key for key in known if key in held]:
        table.reset_options(keys)


def read_stream(
    spark: SparkSession,
    table: str,
    *,
    watermark: bool = False,
    bootstrap_servers: str = SERVERS_DEFAULT,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a table as a stream; with `watermark`, rows that arrive too late are dropped.

    clicks = read_stream(spark, "shop.clicks", watermark=True)
    clicks.groupBy(F.window("at", "1 minute")).count()
    """
    given = {SERVERS.name: bootstrap_servers, **(options or {})}
    stream = spark.readStream.format(FORMAT).options(**given).load(table)
    if not watermark:
        return stream
    found = _declared(table, given)
    if found.column not in stream.columns:
        raise RequestError(
            f"The watermark of {table} is on '{found.column}', which is not read.",
            hint="Add it to 'scan.columns'.",
        )
    return _watermarked(stream, found)


def read_watermark(properties: Mapping[str, str]) -> Watermark | None:
    """The watermark that a table's properties declare, if any."""
    column = properties.get(COLUMN_PROPERTY)
    if column is None:
        return None
    expression = properties.get(EXPRESSION_PROPERTY, column)
    match = _EXPRESSION.fullmatch(expression)
    if match is None or _named(match) != column:
        raise _strange(expression)
    if match["unit"] is None:
        return Watermark(column, 0)
    unit_ms = _UNITS_MS.get(match["unit"].upper())
    if unit_ms is None:
        raise _strange(expression)
    return Watermark(column, round(float(match["count"]) * unit_ms))


def watermark_properties(watermark: Watermark, kind: DataType) -> dict[str, str]:
    """The properties that declare a watermark on a column of a type."""
    name = watermark.column.replace("`", "``")
    seconds, millis = divmod(watermark.delay_ms, _UNITS_MS["SECOND"])
    delay = f"{seconds}.{millis:03}" if millis else f"{seconds}"
    return {
        COLUMN_PROPERTY: watermark.column,
        EXPRESSION_PROPERTY: f"`{name}` - INTERVAL '{delay}' SECOND",
        TYPE_PROPERTY: _type_text(kind),
    }


def _watermarked(stream: DataFrame, watermark: Watermark) -> DataFrame:
    name = watermark.column
    if isinstance(stream.schema[name].dataType, TimestampNTZType):
        quoted = f"`{name.replace('`', '``')}`"
        stream = stream.withColumn(name, stream[quoted].cast(SparkTimestampType()))
    return stream.withWatermark(name, f"{watermark.delay_ms} milliseconds")


def _declared(table: str, options: Mapping[str, str]) -> Watermark:
    path = split_virtual(table)[0]
    connection = SourceOptions.of({**options, "table": path}).connection
    found = read_watermark(connection.client().table(path).info.descriptor.custom_properties)
    if found is None:
        raise RequestError(
            f"{path} declares no watermark.",
            hint="Declare one with set_watermark(table, 'column', delay='30 seconds'), or read it"
            " without watermark=True and call withWatermark yourself.",
        )
    return found


def _event_time(table: Table, column: str) -> DataType:
    if column not in table.info.schema.names:
        raise RequestError(
            f"{table.name} has no column '{column}'.",
            hint=f"Its columns are {', '.join(table.info.schema.names)}.",
        )
    kind = table.info.schema.column(column).type
    if not isinstance(kind, TimestampType | TimestampLtzType):
        raise RequestError(
            f"The column '{column}' of {table.name} is {kind}, which is not a timestamp.",
            hint="A watermark needs a TIMESTAMP or TIMESTAMP_LTZ column.",
        )
    return kind


def _type_text(kind: DataType) -> str:
    """A timestamp type in SQL."""
    assert isinstance(kind, TimestampType | TimestampLtzType)
    zone = " WITH LOCAL TIME ZONE" if isinstance(kind, TimestampLtzType) else ""
    return f"TIMESTAMP({kind.precision}){zone}{'' if kind.nullable else ' NOT NULL'}"


def _named(match: re.Match[str]) -> str:
    quoted = match["quoted"]
    return match["plain"] if quoted is None else quoted.replace("``", "`")


def _strange(expression: str) -> UnsupportedError:
    return UnsupportedError(
        f"The watermark {expression!r} is not simply a column and a delay.",
        hint="Declare it with set_watermark, or call withWatermark on the stream yourself.",
    )
