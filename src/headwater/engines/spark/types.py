"""Spark types of tables, and casts to the exact Arrow types that Spark accepts."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from headwater.errors import RequestError, UnsupportedError

# Spark stores timestamps in UTC; the session's time zone is only for display.
ZONE = "UTC"
_PLAIN: dict[pa.DataType, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
}


def spark_schema(
    schema: pa.Schema, *, columns: Sequence[str] | None, path: str
) -> spark.StructType:
    """The columns of a table for Spark, all of them or some in the order given.

    Every column is nullable for Spark: it demands exactly the same of the batches.
    """
    names = schema.names if columns is None else columns
    if missing := [name for name in names if name not in schema.names]:
        raise RequestError(
            f"{path} has no column '{missing[0]}'.",
            hint=f"Its columns are {', '.join(schema.names)}.",
        )
    return spark.StructType(
        [spark.StructField(name, spark_type(schema.field(name).type)) for name in names]
    )


def spark_type(kind: pa.DataType) -> spark.DataType:
    """The Spark type for an Arrow type of a table."""
    if plain := _PLAIN.get(kind):
        return plain
    if pa.types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return spark.BinaryType()
    if pa.types.is_time(kind):
        return spark.TimeType()
    return _nested_type(kind)


def _nested_type(kind: pa.DataType) -> spark.DataType:
    if pa.types.is_list(kind):
        return spark.ArrayType(spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return spark.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if pa.types.is_struct(kind):
        return spark.StructType(
            [spark.StructField(field.name, spark_type(field.type)) for field in kind]
        )
    raise UnsupportedError(f"Spark has no type for {kind}.")


class SparkBatches:
    """Casts rows of a table to the one Arrow type that Spark accepts for each of its types."""

    def __init__(self, schema: spark.StructType, *, truncates_nanoseconds: bool) -> None:
        self.schema = to_arrow_schema(schema, timezone=ZONE)
        self._is_safe = not truncates_nanoseconds

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Cast the rows, with columns in Spark's order; no copy where types agree."""
        if batch.schema.names != self.schema.names:
            batch = batch.select(self.schema.names)
        if batch.schema.equals(self.schema):
            return batch
        columns = [
            self._column(column, field)
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if column.type.equals(field.type):
            return column
        try:
            return column.cast(field.type, safe=self._is_safe)
        except pa.ArrowInvalid as fault:
            raise RequestError(
                f"The column '{field.name}' does not fit Spark's type {field.type}: {fault}.",
                hint=(
                    "To cut off times finer than a microsecond, use "
                    ".option('scan.nanoseconds', 'truncate')."
                ),
            ) from fault
