"""About how many bytes a row takes, by the types of its columns."""

from pyspark.sql import types as spark

_BYTES: dict[type[spark.DataType], int] = {
    spark.BooleanType: 1,
    spark.ByteType: 1,
    spark.ShortType: 2,
    spark.IntegerType: 4,
    spark.FloatType: 4,
    spark.DateType: 4,
    spark.StringType: 20,
    spark.BinaryType: 100,
    spark.DecimalType: 16,
    spark.ArrayType: 100,
    spark.MapType: 200,
}
_OTHERS = 8
# What Spark reckons for each row, whatever is in it.
_ROW = 8


def row_width(schema: spark.StructType) -> int:
    """Return the width of a row."""
    return _ROW + sum(column_width(field.dataType) for field in schema)


def column_width(kind: spark.DataType) -> int:
    """Return the width of one value, as Spark's own defaults have it."""
    if isinstance(kind, spark.StructType):
        return sum(column_width(field.dataType) for field in kind)
    return _BYTES.get(type(kind), _OTHERS)


def narrowest(schema: spark.StructType) -> spark.StructType:
    """Return the one column that costs least to read, for a query that needs rows and no values."""
    return spark.StructType([min(schema.fields, key=lambda field: column_width(field.dataType))])
