"""Types of tables in Spark, and rows in the one Arrow form that Spark accepts of each."""

from datetime import datetime, time

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from headwater.engines.spark.types import SparkBatches, spark_schema, spark_type
from headwater.errors import RequestError, UnsupportedError
from tests.cases import cases

MOMENT = datetime(2026, 11, 16, 8, 30)


def batches(kind: pa.DataType, *, truncates: bool = False) -> SparkBatches:
    schema = spark_schema(pa.schema([("c", kind)]), columns=None, path="t")
    return SparkBatches(schema, truncates_nanoseconds=truncates)


@cases(
    ("kind", "expected"),
    [
        (pa.int8(), "tinyint"),
        (pa.decimal128(20, 4), "decimal(20,4)"),
        (pa.binary(4), "binary"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.time32("ms"), "time(6)"),
        (pa.map_(pa.string(), pa.list_(pa.int32())), "map<string,array<int>>"),
        (pa.struct([("a", pa.date32())]), "struct<a:date>"),
    ],
)
def test_each_type_of_a_table_has_one_in_spark(kind, expected):
    assert spark_type(kind).simpleString() == expected


def test_a_type_that_no_table_has_is_refused():
    with pytest.raises(UnsupportedError, match="duration"):
        spark_type(pa.duration("s"))


def test_columns_come_in_the_order_asked_for():
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])

    assert spark_schema(schema, columns=["b", "a"], path="t").names == ["b", "a"]


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(RequestError, match="t has no column 'x'") as caught:
        spark_schema(pa.schema([("a", pa.int32())]), columns=["x"], path="t")

    assert "a" in str(caught.value.hint)


def test_rows_lose_what_spark_does_not_know_and_keep_their_values():
    required = pa.field("item", pa.timestamp("ms"), nullable=False)
    kind = pa.struct([pa.field("l", pa.list_(required)), pa.field("b", pa.binary(2))])
    rows = [{"l": [MOMENT], "b": b"ab"}, None, {"l": [], "b": None}]
    batch = pa.record_batch({"c": pa.array(rows, kind)})

    cast = batches(kind).cast(batch)

    element = pa.field("element", pa.timestamp("us"))
    assert cast.schema.field("c").type == pa.struct(
        [pa.field("l", pa.list_(element)), pa.field("b", pa.binary())]
    )
    assert cast.column("c").to_pylist() == rows


def test_rows_that_fit_are_passed_on_as_they_are():
    batch = pa.record_batch({"c": pa.array([1, None])})

    assert batches(pa.int64()).cast(batch) is batch


def test_a_column_that_is_never_null_may_be_for_spark():
    schema = pa.schema([pa.field("c", pa.int64(), nullable=False)])
    batch = pa.record_batch([pa.array([1])], schema=schema)

    assert batches(pa.int64()).cast(batch).schema.field("c").nullable


def test_columns_are_put_in_the_order_of_spark():
    schema = spark.StructType().add("b", spark.StringType()).add("a", spark.LongType())
    batch = pa.record_batch({"a": [1], "x": [0], "b": ["y"]})

    cast = SparkBatches(schema, truncates_nanoseconds=False).cast(batch)

    assert cast.to_pylist() == [{"b": "y", "a": 1}]


@cases("kind", [pa.timestamp("ns"), pa.list_(pa.timestamp("ns", "UTC"))])
def test_nanoseconds_are_refused_or_cut_off_but_never_silently(kind):
    column = pa.array([[1_000_001]] if pa.types.is_list(kind) else [1_000_001], kind)
    batch = pa.record_batch({"c": column})

    with pytest.raises(RequestError, match="column 'c'") as caught:
        batches(kind).cast(batch)

    assert "scan.nanoseconds" in str(caught.value.hint)
    assert "1970-01-01 00:00:00.001000" in str(batches(kind, truncates=True).cast(batch)["c"])


def test_a_time_of_day_is_exact():
    batch = pa.record_batch({"c": pa.array([time(1, 2, 3, 4000)], pa.time32("ms"))})

    assert batches(pa.time32("ms")).cast(batch).column("c").type == pa.time64("ns")
    assert batches(pa.time32("ms")).cast(batch)["c"].to_pylist() == [time(1, 2, 3, 4000)]
