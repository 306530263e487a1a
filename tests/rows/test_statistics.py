import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.model.arrow import arrow_schema
from headwater.model.types import (
    BigIntType,
    BooleanType,
    BytesType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)
from headwater.rows.statistics import decode_statistics, encode_statistics
from tests.cases import cases
from tests.rows.strategies import record_batches, scalar_types, schema_of, schemas

# Written by Fluss itself for the rows below.
GOLDEN = bytes.fromhex(
    "01130000000100020003000400050006000700080009000a000b000c000d000e000f00100011001200000000"
    "0000000000000000000100000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000030000000000000000000000c00000000000000100000000000000"
    "0000000000fd00000000000000ceff0000000000000a0000000000000030f8ffffffffffff000020c0000000"
    "00000000000000f43f6170706c65000085851a00000000000002000000a0000000504600000000000040771b"
    "000000000000806e8774010000e8030000b000000000806e8774010000e8030000b800000000000000000000"
    "000000008000000000000000000000008004d2000000000000000000000000000000806e877401000000806e"
    "8774010000c0000000000000010000000001000000000000000700000000000000c8000000000000001e0000"
    "0000000000b80b0000000000000000c03f000000000000000000802340636865727279008650c30000000000"
    "0008000000a0000000204e00000000000000dd6d0000000000e7535c18a3010000583e0f00b0000000e7535c"
    "18a3010000583e0f00b800000000000000000000000000c0ff00000000000000000000f8ff016345785d89ff"
    "ff0000000000000000e7535c18a3010000e7535c18a3010000"
)
GOLDEN_SCHEMA = schema_of(
    [
        BooleanType(),
        TinyIntType(),
        SmallIntType(),
        IntType(),
        BigIntType(),
        FloatType(),
        DoubleType(),
        StringType(),
        DecimalType(precision=5, scale=2),
        DecimalType(precision=20, scale=3),
        DateType(),
        TimeType(precision=3),
        TimestampType(precision=3),
        TimestampType(precision=6),
        TimestampLtzType(precision=3),
        TimestampLtzType(precision=6),
        StringType(),
        FloatType(),
        DoubleType(),
    ]
)
MILLIS = [1700000000123, 1600000000000, 1800000000999]
MICROS = [1700000000123456, 1600000000000001, 1800000000999999]
NEGATIVE_NAN = float(np.array([0xFFF8 << 48], np.uint64).view(np.float64)[0])
GOLDEN_COLUMNS = [
    [True, False, True],
    [1, -3, 7],
    [100, 200, -50],
    [10, None, 30],
    [1000, -2000, 3000],
    [1.5, -2.5, 0.5],
    [3.25, 1.25, 9.75],
    ["banana", "apple", "cherry"],
    ["123.45", "67.89", "500.00"],
    ["12345678.901", "1.234", "99999999999999.999"],
    [19000, 18000, 20000],
    [3600000, 7200000, 1800000],
    MILLIS,
    MICROS,
    MILLIS,
    MICROS,
    [None, None, None],
    [-0.0, NEGATIVE_NAN, 0.0],
    [0.0, -0.0, NEGATIVE_NAN],
]


def rows_of(schema, columns):
    kinds = arrow_schema(schema)
    arrays = [
        pa.array(values).cast(kind) if pa.types.is_decimal(kind) else pa.array(values, kind)
        for values, kind in zip(columns, kinds.types, strict=True)
    ]
    return pa.record_batch(arrays, schema=kinds)


def column_of(data_type, values):
    schema = schema_of([data_type])
    block = encode_statistics(rows_of(schema, [values]), schema, [0])
    return decode_statistics(block, schema).columns[0]


def test_a_block_has_the_bytes_that_fluss_writes():
    rows = rows_of(GOLDEN_SCHEMA, GOLDEN_COLUMNS)

    block = encode_statistics(rows, GOLDEN_SCHEMA, range(19))

    assert block == GOLDEN


def test_a_block_that_fluss_wrote_is_read():
    columns = decode_statistics(GOLDEN, GOLDEN_SCHEMA).columns

    assert (columns[3].null_count, columns[3].minimum, columns[3].maximum) == (1, 10, 30)
    assert (columns[7].minimum, columns[7].maximum) == ("apple", "cherry")
    assert str(columns[9].maximum) == "99999999999999.999"
    assert columns[13].minimum == MICROS[1] * 1000
    assert (columns[16].null_count, columns[16].minimum) == (3, None)
    assert math.isnan(columns[17].maximum)


@given(data=st.data())
def test_bounds_of_ordered_columns_are_those_of_arrow(data):
    ordered = st.sampled_from([IntType(), BooleanType(), StringType(), DecimalType(precision=30)])
    schema = data.draw(schemas(ordered))
    rows = data.draw(record_batches(schema))

    block = encode_statistics(rows, schema, range(rows.num_columns))

    columns = decode_statistics(block, schema).columns
    for column, values in zip(schema.columns, rows.columns, strict=True):
        found = columns[column.column_id]
        assert found.null_count == values.null_count
        assert {"min": found.minimum, "max": found.maximum} == pc.min_max(values).as_py()


@given(data=st.data())
def test_every_type_takes_part_or_stays_unbounded(data):
    schema = data.draw(schemas(scalar_types()))
    rows = data.draw(record_batches(schema, nan=True))

    block = encode_statistics(rows, schema, range(rows.num_columns))

    columns = decode_statistics(block, schema).columns
    assert [column.null_count for column in columns.values()] == [
        values.null_count for values in rows.columns
    ]


@given(block=st.binary(max_size=60))
def test_random_bytes_are_read_or_refused(block):
    try:
        statistics = decode_statistics(block, GOLDEN_SCHEMA)
    except CorruptBatchError:
        return

    assert len(statistics.columns) <= 19


@given(at=st.integers(0, len(GOLDEN) - 1), value=st.binary(min_size=1, max_size=8))
def test_a_damaged_block_is_read_or_refused(at, value):
    damaged = GOLDEN[:at] + value + GOLDEN[at + len(value) :]

    try:
        statistics = decode_statistics(damaged, GOLDEN_SCHEMA)
    except CorruptBatchError:
        return

    assert len(statistics.columns) <= 19


@given(cut=st.integers(0, len(GOLDEN) - 1))
def test_a_truncated_block_is_refused(cut):
    with pytest.raises(CorruptBatchError):
        decode_statistics(GOLDEN[:cut], GOLDEN_SCHEMA)


def test_a_block_names_columns_in_the_order_that_was_asked():
    block = encode_statistics(rows_of(GOLDEN_SCHEMA, GOLDEN_COLUMNS), GOLDEN_SCHEMA, [4, 1])

    assert struct.unpack_from("<Bhhh", block) == (1, 2, 4, 1)


@cases(("count", "columns"), [(0, [0]), (3, [])])
def test_nothing_is_written_without_rows_or_columns(count, columns):
    rows = rows_of(GOLDEN_SCHEMA, GOLDEN_COLUMNS).slice(0, count)

    assert encode_statistics(rows, GOLDEN_SCHEMA, columns) is None


def test_bytes_have_no_bounds():
    column = column_of(BytesType(), [b"a", None])

    assert (column.null_count, column.minimum, column.maximum) == (1, None, None)


def test_rows_of_bounds_may_be_left_out():
    block = struct.pack("<Bhhiii", 1, 1, 0, 2, 0, 0)

    column = decode_statistics(block, GOLDEN_SCHEMA).columns[0]

    assert (column.null_count, column.minimum, column.maximum) == (2, None, None)


def test_the_largest_fine_time_lies_below_its_bound():
    column = column_of(TimeType(precision=6), [1_500, 2_999])

    assert (column.minimum, column.maximum) == (1, 3)


def test_a_timestamp_whose_milliseconds_overflow_has_no_bound():
    column = column_of(TimestampType(precision=0), [5, 2**62])

    assert (column.minimum, column.maximum) == (5_000_000_000, None)


@cases(
    ("values", "low", "high"),
    [
        ([0.0, -0.0], -0.0, 0.0),
        ([-0.0], -0.0, -0.0),
        ([0.0, 1.0], 0.0, 1.0),
        ([-1.0, -0.0], -1.0, -0.0),
        ([math.inf, -math.inf], -math.inf, math.inf),
    ],
)
def test_negative_zero_lies_below_zero(values, low, high):
    column = column_of(DoubleType(), values)

    assert repr((column.minimum, column.maximum)) == repr((low, high))


@cases("kind", [FloatType(), DoubleType()])
def test_nan_lies_above_infinity(kind):
    column = column_of(kind, [math.inf, math.nan, 1.0])

    assert column.minimum == 1.0
    assert math.isnan(column.maximum)
