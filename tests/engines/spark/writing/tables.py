"""Tables for the tests of the sink, as a server would describe them."""

from pyspark.sql import types as spark

from headwater.cluster.schema_in import schema_of
from headwater.engines.spark.clients import SparkConnection
from headwater.engines.spark.sink_columns import SinkOptions
from headwater.model.path import TablePath
from headwater.model.table import TableDescriptor, TableInfo

KINDS = {
    "bigint": spark.LongType(),
    "date": spark.DateType(),
    "double": spark.DoubleType(),
    "int": spark.IntegerType(),
    "months": spark.YearMonthIntervalType(),
    "string": spark.StringType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
    "variant": spark.VariantType(),
    "void": spark.NullType(),
}
ORDERS = {"id": "BIGINT NOT NULL", "city": "STRING", "amount": "INT"}


def described(columns=ORDERS, *, key=(), **traits) -> TableInfo:
    auto_increment = traits.pop("auto_increment", ())
    schema = schema_of(columns, primary_key=key, auto_increment=auto_increment)
    return TableInfo(
        path=TablePath("shop", "orders"),
        table_id=1,
        schema_id=1,
        descriptor=TableDescriptor(schema=schema, **traits),
        created_ms=0,
        modified_ms=0,
    )


def options(**choices) -> SinkOptions:
    return SinkOptions(
        connection=SparkConnection(servers=("nowhere:1",)), table="shop.orders", **choices
    )


def frame(columns: str) -> spark.StructType:
    """Return the schema of a data frame, such as "id bigint, city string"."""
    pairs = [each.split() for each in columns.split(",")]
    return spark.StructType([spark.StructField(name, KINDS[kind]) for name, kind in pairs])
