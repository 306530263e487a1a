"""The connector `filesystem`: folders of json, csv, parquet, orc or avro files, through Spark."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.config.values import BOOLEAN, DURATION, INT_MAX, TEXT, Option, choice, whole_number
from headwater.errors import ConflictError, UnsupportedError
from headwater.pipelines.connectors.console import triggered
from headwater.pipelines.connectors.spi import (
    Connector,
    ConnectorTable,
    StreamStart,
    all_nullable,
)

_SINK_LOG = "_spark_metadata"
_SQL_TIME = "yyyy-MM-dd HH:mm:ss[.SSSSSS]"
_ISO_TIME = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]"


class FileFormat(StrEnum):
    """What files contain."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    ORC = "orc"
    TEXT = "text"


class Compression(StrEnum):
    """How new files are compressed; files that are read are recognised by their names."""

    NONE = "none"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    SNAPPY = "snappy"
    ZSTD = "zstd"
    LZ4 = "lz4"
    DEFLATE = "deflate"


class TimeText(StrEnum):
    """How times are written in json files."""

    SQL = "sql"
    ISO = "iso-8601"


PATH = Option(name="path", kind=TEXT, description="The folder, as a path or a URL.")
FORMAT = Option(name="format", kind=choice(FileFormat), description="What the files contain.")
COMPRESSION = Option(
    name="compression",
    kind=choice(Compression),
    description="How new files are compressed. Compressed files are read by their names: `.gz`, …",
)
MONITOR = Option(
    name="source.monitor-interval",
    kind=DURATION,
    description="How often a stream looks for new files. Without it, it ends with those there are.",
)
GLOB = Option(
    name="source.path.glob",
    kind=TEXT,
    description="Read only files whose names fit a pattern such as `*.json`.",
)
FILES_MAX = Option(
    name="source.max-files-per-trigger",
    kind=whole_number(low=1, high=INT_MAX),
    description="Maximum number of new files in a micro-batch.",
)
_DELIMITER = Option(
    name="csv.field-delimiter", kind=TEXT, default=",", description="What separates fields."
)
_QUOTE = Option(name="csv.quote-character", kind=TEXT, default='"', description="Quotes a field.")
_ESCAPE = Option(name="csv.escape-character", kind=TEXT, description="Escapes a quote.")
_NULL = Option(name="csv.null-literal", kind=TEXT, description="Text that stands for null.")
_HEADER = Option(
    name="csv.header",
    kind=BOOLEAN,
    default="false",
    description="Whether the first line has the names of the columns.",
)
_CSV_LENIENT = Option(
    name="csv.ignore-parse-errors",
    kind=BOOLEAN,
    default="false",
    description="Leave out lines that cannot be read, instead of failing.",
)
_JSON_LENIENT = Option(
    name="json.ignore-parse-errors",
    kind=BOOLEAN,
    default="false",
    description="Leave out lines that cannot be read, instead of failing.",
)
_JSON_TIMES = Option(
    name="json.timestamp-format.standard",
    kind=choice(TimeText),
    default="SQL",
    description="`SQL` (`2026-11-16 08:00:00`) or `ISO-8601` (`2026-11-16T08:00:00`).",
)


def spark_options(given: Mapping[str, str]) -> dict[str, str]:
    """What Spark's readers and writers get of the options of a table."""
    found: dict[str, str] = {}
    match FORMAT.required(given):
        case FileFormat.CSV:
            found = {
                "sep": given.get(_DELIMITER.name, ",").replace("\\t", "\t"),
                "quote": given.get(_QUOTE.name, '"'),
                "header": str(_HEADER.required(given)).lower(),
                "mode": _mode(is_lenient=_CSV_LENIENT.required(given)),
                **({"escape": given[_ESCAPE.name]} if _ESCAPE.name in given else {}),
                **({"nullValue": given[_NULL.name]} if _NULL.name in given else {}),
                **_times(_SQL_TIME),
            }
        case FileFormat.JSON:
            is_iso = _JSON_TIMES.required(given) is TimeText.ISO
            found = {
                "mode": _mode(is_lenient=_JSON_LENIENT.required(given)),
                **_times(_ISO_TIME if is_iso else _SQL_TIME),
            }
        case _:
            pass  # the others need no more than the columns
    compression = COMPRESSION.of(given)
    return found if compression is None else {**found, "compression": compression.value}


def _mode(*, is_lenient: bool) -> str:
    return "DROPMALFORMED" if is_lenient else "FAILFAST"


def _times(pattern: str) -> dict[str, str]:
    return {"timestampFormat": pattern, "timestampNTZFormat": pattern}


def _source_options(table: ConnectorTable) -> dict[str, str]:
    glob, files = GLOB.of(table.options), FILES_MAX.of(table.options)
    return {
        **spark_options(table.options),
        **({} if glob is None else {"pathGlobFilter": glob}),
        **({} if files is None else {"maxFilesPerTrigger": str(files)}),
    }


def _read(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    reader = spark.read.format(FORMAT.required(table.options).value)
    options = {name: text for name, text in _source_options(table).items() if "Trigger" not in name}
    path = table.options[PATH.name]
    return reader.schema(all_nullable(table.schema)).options(**options).load(path)


def _read_stream(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    reader = spark.readStream.format(FORMAT.required(table.options).value)
    reader = reader.schema(all_nullable(table.schema)).options(**_source_options(table))
    return reader.load(table.options[PATH.name])


def _write(rows: DataFrame, table: ConnectorTable) -> None:
    _save(rows, table, mode="append")


def _overwrite(rows: DataFrame, table: ConnectorTable) -> None:
    _save(rows, table, mode="overwrite")


def _save(rows: DataFrame, table: ConnectorTable, *, mode: str) -> None:
    path = table.options[PATH.name]
    if _has_sink_log(path):
        raise ConflictError(
            f"{path} is written by a streaming job, which decides what belongs to it: files that a "
            "batch adds would not be read.",
            hint="Write into another folder.",
        )
    writer = rows.write.format(FORMAT.required(table.options).value).mode(mode)
    writer = writer.options(**spark_options(table.options))
    writer.partitionBy(*table.partitioned_by).save(path)


def _write_stream(rows: DataFrame, table: ConnectorTable, start: StreamStart) -> StreamingQuery:
    path = table.options[PATH.name]
    if table.primary_key:
        raise UnsupportedError(
            f"{table.name} has a PRIMARY KEY, and files cannot be changed by key.",
            hint="Remove the key, or write into a table of a fluss catalog.",
        )
    if start.is_new and _has_sink_log(path):
        raise ConflictError(
            f"{path} has the files of another streaming job, whose micro-batches would be taken "
            "for those of this one, and skipped.",
            hint="Write into another folder, or remove this one with all its files.",
        )
    writer = rows.writeStream.format(FORMAT.required(table.options).value)
    writer = writer.options(**spark_options(table.options)).option("path", path)
    writer = writer.partitionBy(*table.partitioned_by).outputMode(start.mode.value)
    return triggered(writer, start).start()


def _has_sink_log(path: str) -> bool:
    """Tell whether a stream has written to a folder of this machine."""
    url = urlparse(path)
    if url.scheme not in ("", "file"):
        return False
    return (Path(unquote(url.path)) / _SINK_LOG).is_dir()


def _is_bounded(table: ConnectorTable) -> bool:
    return MONITOR.name not in table.options


def _pace_ms(table: ConnectorTable) -> int | None:
    return MONITOR.of(table.options)


FILESYSTEM = Connector(
    name="filesystem",
    description="Folders of files, with a folder for each partition.",
    options=(
        PATH,
        FORMAT,
        COMPRESSION,
        MONITOR,
        GLOB,
        FILES_MAX,
        _DELIMITER,
        _QUOTE,
        _ESCAPE,
        _NULL,
        _HEADER,
        _CSV_LENIENT,
        _JSON_LENIENT,
        _JSON_TIMES,
    ),
    required=(PATH.name, FORMAT.name),
    metadata={
        "file.path": "_metadata.file_path",
        "file.name": "_metadata.file_name",
        "file.size": "_metadata.file_size",
        "file.modification-time": "_metadata.file_modification_time",
    },
    read=_read,
    read_stream=_read_stream,
    write=_write,
    overwrite=_overwrite,
    write_stream=_write_stream,
    is_bounded=_is_bounded,
    pace_ms=_pace_ms,
)
