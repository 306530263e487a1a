"""Files of the lake as Spark reads them itself, with the names and types of the table."""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headwater.client.union.split import FileGroup
from headwater.engines.spark.native.conditions import quoted
from headwater.engines.spark.types import spark_type
from headwater.model.arrow import arrow_type
from headwater.model.schema import Column as TableColumn
from headwater.model.types import (
    ArrayType,
    DataType,
    MapType,
    RowType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)

_PRECISION_MAX = 6
_PATH, _POSITION = "headwater file path", "headwater position"
# The columns of files of deleted positions, as Iceberg names them.
_DELETES = StructType([StructField("file_path", StringType()), StructField("pos", LongType())])
# Files are named one by one: nothing in their names is a pattern or says what they hold.
_BY_NAME = {"__globPaths__": "false", "recursiveFileLookup": "true"}
# Bits that rot on disk are an error, and no other value.
_CHECKED = {"parquet.page.verify-checksum.enabled": "true"}


def is_read_by_spark(kind: DataType) -> bool:
    """Tell whether Spark itself makes of a type in files what the table holds."""
    match kind:
        case TimeType():
            return False
        case TimestampType(precision=precision) | TimestampLtzType(precision=precision):
            return precision <= _PRECISION_MAX
        case ArrayType(element=element):
            return is_read_by_spark(element)
        case MapType(key=key, value=value):
            return is_read_by_spark(key) and is_read_by_spark(value)
        case RowType(fields=fields):
            return all(is_read_by_spark(field.type) for field in fields)
        case _:
            return True


def frame_of_files(
    spark: SparkSession, group: FileGroup, columns: Sequence[TableColumn]
) -> DataFrame:
    """Return the rows of files, without those at positions that are deleted."""
    names = dict(group.names)
    held = [column for column in columns if column.column_id in names]
    fields = [StructField(names[each.column_id], _type_of(each)) for each in held]
    rows = _parquet(spark, (file.path for file in group.files), StructType(fields))
    chosen = [_chosen(column, names.get(column.column_id)) for column in columns]
    deletes = {path for file in group.files for path in file.deletes}
    if not deletes:
        return rows.select(*chosen)
    placed = rows.select(
        *chosen,
        _plain(_decoded(f.col("_metadata.file_path"))).alias(_PATH),
        f.col("_metadata.row_index").alias(_POSITION),
    )
    deleted = _parquet(spark, sorted(deletes), _DELETES).select(
        _plain(f.col("file_path")).alias(_PATH), f.col("pos").alias(_POSITION)
    )
    left = placed.join(f.broadcast(deleted), on=[_PATH, _POSITION], how="left_anti")
    return left.drop(_PATH, _POSITION)


def _parquet(spark: SparkSession, paths: Iterable[str], schema: StructType) -> DataFrame:
    return spark.read.schema(schema).options(**_BY_NAME, **_CHECKED).parquet(*paths)


def _chosen(column: TableColumn, name: str | None) -> Column:
    value = f.lit(None).cast(_type_of(column)) if name is None else f.col(quoted(name))
    return value.alias(column.name)


def _type_of(column: TableColumn) -> SparkType:
    return spark_type(arrow_type(column.type))


def _decoded(path: Column) -> Column:
    """Return a path as it is on disk; Spark writes it as a URI does."""
    return f.url_decode(f.replace(path, f.lit("+"), f.lit("%2B")))


def _plain(path: Column) -> Column:
    return f.regexp_replace(path, "^file:/*", "/")
