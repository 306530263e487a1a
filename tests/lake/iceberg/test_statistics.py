"""What the metadata says of a file is what Iceberg would write, also at the ends of the range."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as ice
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.schema import Schema

from headwater.lake.iceberg.data_files import bound_bytes, file_statistics
from headwater.lake.iceberg.types import parquet_schema

LONGS = st.integers(-(2**63), 2**63 - 1)


def statistics_of(kind: ice.IcebergType, values, *, groups: int = 1, **properties):
    schema = Schema(ice.NestedField(1, "c", kind))
    arrow = parquet_schema(schema.fields)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, arrow, store_decimal_as_integer=True) as writer:
        for _ in range(groups):
            writer.write_table(pa.table([pa.array(values, arrow.field(0).type)], schema=arrow))
    return file_statistics(writer.writer.metadata, schema, properties)


@given(st.integers(-(2**31), 2**31 - 1))
def test_whole_numbers_are_written_as_iceberg_writes_them(number):
    assert bound_bytes(number, ice.IntegerType()) == to_bytes(ice.IntegerType(), number)
    assert bound_bytes(number, ice.LongType()) == to_bytes(ice.LongType(), number)


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=2, min_value=-(10**15), max_value=10**15
    )
)
def test_decimals_are_written_as_iceberg_writes_them(number):
    kind = ice.DecimalType(38, 2)

    assert bound_bytes(int(number.scaleb(2)), kind) == to_bytes(kind, number)


@given(st.lists(LONGS, min_size=1))
def test_moments_beyond_the_calendar_of_python_have_bounds(numbers):
    found = statistics_of(ice.TimestampType(), numbers)

    bounds = [
        from_bytes(ice.LongType(), each[1]) for each in (found.lower_bounds, found.upper_bounds)
    ]
    assert bounds == [min(numbers), max(numbers)]


@given(st.lists(st.decimals(places=3, min_value=-(10**30), max_value=10**30), min_size=1))
def test_large_decimals_are_compared_as_numbers(numbers):
    kind = ice.DecimalType(38, 3)

    found = statistics_of(kind, numbers)

    assert from_bytes(kind, found.lower_bounds[1]) == min(numbers)
    assert from_bytes(kind, found.upper_bounds[1]) == max(numbers)


@given(st.lists(st.text(), min_size=1))
def test_shortened_texts_are_still_bounds(texts):
    found = statistics_of(ice.StringType(), texts)

    assert found.lower_bounds[1] <= min(text.encode() for text in texts)
    assert 1 not in found.upper_bounds or found.upper_bounds[1] >= max(t.encode() for t in texts)


def test_nulls_and_values_are_counted_over_all_groups():
    found = statistics_of(ice.IntegerType(), [3, None, 1], groups=2)

    assert (found.record_count, found.value_counts, found.null_value_counts) == (6, {1: 6}, {1: 2})
    assert len(found.split_offsets) == 2
    assert found.split_offsets == sorted(found.split_offsets)


def test_properties_of_the_table_decide_what_is_kept():
    found = statistics_of(ice.LongType(), [1, 2], **{"write.metadata.metrics.column.c": "counts"})

    assert found.value_counts == {1: 2}
    assert found.lower_bounds == {}


def test_a_file_of_nothing_but_nulls_has_no_bounds():
    found = statistics_of(ice.DecimalType(9, 2), [None, None])

    assert (found.lower_bounds, found.null_value_counts) == ({}, {1: 2})
    assert statistics_of(ice.DecimalType(9, 2), [Decimal("1.5")]).lower_bounds[1] == b"\x00\x96"
