"""About how wide rows are."""

import pyarrow as pa

from headwater.engines.spark.catalog.scan import narrowest, row_width
from headwater.engines.spark.types import spark_schema

NESTED = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int32()))])


def columns(**kinds: pa.DataType):
    return spark_schema(pa.schema(kinds), columns=None, path="t")


def test_rows_with_more_and_larger_columns_are_wider():
    small = columns(a=pa.int32())
    large = columns(a=pa.int32(), b=pa.string(), c=NESTED)

    assert 0 < row_width(small) < row_width(large)


def test_the_column_that_costs_least_stands_for_the_row():
    schema = columns(a=pa.string(), b=pa.bool_(), c=pa.int64())

    assert narrowest(schema).names == ["b"]
