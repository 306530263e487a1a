"""Lake files that Spark reads itself, with our filters as its conditions."""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headwater.config.values import LONG_MAX
from headwater.engines.spark.types import spark_type
from headwater.model import types
from headwater.model.arrow import arrow_type
from headwater.model.predicate import LeafFunction
from headwater.model.schema import Column as TableColumn
from headwater.read.filters import Filter
from headwater.read.literals import Comparison, Native, scalar_of
from headwater.read.split import FileGroup

# Our filters as Spark conditions, for rows that Spark reads itself.

_WHOLE = (types.TinyIntType, types.SmallIntType, types.IntType, types.BigIntType)
_TIMES = (types.DateType, types.TimestampType, types.TimestampLtzType)


def condition_of(wanted: Filter) -> Column:
    """The Spark condition that holds for the same rows."""
    return reduce(or_, (_all(branch) for branch in wanted.branches), f.lit(False))


def quoted(name: str) -> str:
    """Quote a name for Spark, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def _all(tests: tuple[Comparison, ...]) -> Column:
    return reduce(and_, map(_test, tests), f.lit(True))


def _test(test: Comparison) -> Column:
    column = f.col(quoted(test.column.name))
    match test.function:
        case LeafFunction.IS_NULL:
            return column.isNull()
        case LeafFunction.IS_NOT_NULL:
            return column.isNotNull()
        case LeafFunction.IN:
            return column.isin([_literal(value, test) for value in test.values])
        case LeafFunction.NOT_IN:
            listed = column.isin([_literal(value, test) for value in test.values])
            return column.isNotNull() & ~listed if test.values else f.lit(True)
        case LeafFunction.STARTS_WITH:
            return column.startswith(str(test.values[0]))
        case LeafFunction.CONTAINS:
            return column.contains(str(test.values[0]))
        case LeafFunction.ENDS_WITH:
            return column.endswith(str(test.values[0]))
        case _:
            return _compared(column, test)


def _compared(column: Column, test: Comparison) -> Column:
    value = test.values[0]
    if not isinstance(test.column.type, types.FloatType | types.DoubleType):
        return _order(column, _literal(value, test), test.function)
    # Spark sorts NaN above all numbers and equal to itself; we compare it with nothing.
    is_unequal = test.function is LeafFunction.NOT_EQUAL
    if isinstance(value, float) and math.isnan(value):
        return column.isNotNull() & f.lit(is_unequal)
    held = _order(column, _literal(value, test), test.function)
    return held if is_unequal else held & ~f.isnan(column)


def _order(column: Column, value: Column, function: LeafFunction) -> Column:
    match function:
        case LeafFunction.EQUAL:
            return column == value
        case LeafFunction.NOT_EQUAL:
            return column != value
        case LeafFunction.LESS_THAN:
            return column < value
        case LeafFunction.LESS_OR_EQUAL:
            return column <= value
        case LeafFunction.GREATER_THAN:
            return column > value
        case _:
            assert function is LeafFunction.GREATER_OR_EQUAL, function
            return column >= value


def _literal(value: Native, test: Comparison) -> Column:
    kind = test.column.type
    if isinstance(value, int) and isinstance(kind, _WHOLE):
        # A literal that the column's type cannot hold is compared in its own type.
        return f.lit(value if abs(value) <= LONG_MAX else Decimal(value))
    held = scalar_of(value, kind).as_py()
    if not isinstance(kind, _TIMES):
        return f.lit(held)
    # As text, which no process time zone changes.
    return f.lit(str(held)).cast(spark_type(arrow_type(kind)))


# Lake files with the names and types of the table.

_PRECISION_MAX = 6
_PATH, _POSITION = "headwater file path", "headwater position"
# The columns of delete files, as Iceberg names them.
_DELETES = StructType([StructField("file_path", StringType()), StructField("pos", LongType())])
# Files are named one by one: nothing in their names is a pattern or a partition value.
_BY_NAME = {"__globPaths__": "false", "recursiveFileLookup": "true"}
# Bits that rot on disk must raise, not become other values.
_CHECKED = {"parquet.page.verify-checksum.enabled": "true"}


def is_read_by_spark(kind: types.DataType) -> bool:
    """Tell whether Spark itself reads a file type as the table's type."""
    match kind:
        case types.TimeType():
            return False
        case types.TimestampType(precision=precision) | types.TimestampLtzType(precision=precision):
            return precision <= _PRECISION_MAX
        case types.ArrayType(element=element):
            return is_read_by_spark(element)
        case types.MapType(key=key, value=value):
            return is_read_by_spark(key) and is_read_by_spark(value)
        case types.RowType(fields=fields):
            return all(is_read_by_spark(field.type) for field in fields)
        case _:
            return True


def frame_of_files(
    spark: SparkSession, group: FileGroup, columns: Sequence[TableColumn]
) -> DataFrame:
    """The rows of files, without deleted positions."""
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
    """A path as on disk; Spark percent-encodes it."""
    return f.url_decode(f.replace(path, f.lit("+"), f.lit("%2B")))


def _plain(path: Column) -> Column:
    return f.regexp_replace(path, "^file:/*", "/")
