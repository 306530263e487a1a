"""Compacted rows: both ways, against a plain codec, and what they cannot hold exactly."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.model.arrow import arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    DataType,
    IntType,
    MapType,
    RowField,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)
from headwater.rows.compacted.coders import RowDecoder, RowEncoder
from headwater.rows.row_bytes import RowBytes
from tests.cases import cases
from tests.rows import compacted_reference as reference
from tests.rows.strategies import data_types, is_storable, scalar_types, values

FAR = 2**63 - 1


@st.composite
def tables(draw, types=data_types, columns_max: int = 10):
    kinds = draw(st.lists(types().filter(is_storable), min_size=1, max_size=columns_max))
    row = st.tuples(*map(values, kinds))
    return kinds, draw(st.lists(row, max_size=9))


def columns_of(types: list[DataType], rows) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], arrow_type(t)) for i, t in enumerate(types)]


@given(tables())
def test_rows_are_written_as_the_reference_writes_them(table):
    types, rows = table

    written = RowEncoder.of(types).encode(columns_of(types, rows)).to_list()

    assert written == [reference.write_row(types, row) for row in rows]


@given(tables())
def test_rows_are_read_as_the_reference_reads_them(table):
    types, rows = table
    written = [reference.write_row(types, row) for row in rows]

    columns = RowDecoder.of(types).decode(RowBytes.of(written))

    read_back = [reference.read_row(types, row) for row in written]
    for column, expected in zip(columns, columns_of(types, read_back), strict=True):
        column.validate(full=True)
        assert column.equals(expected)


@given(tables(), st.integers(0, 3))
def test_slices_of_columns_round_trip(table, skipped):
    types, rows = table
    columns = [column.slice(skipped) for column in columns_of(types, rows)]

    decoded = RowDecoder.of(types).decode(RowEncoder.of(types).encode(columns))

    assert decoded == columns


@given(tables(scalar_types), st.data())
def test_rows_are_read_from_anywhere_and_in_any_order(table, data):
    types, rows = table
    order = data.draw(st.permutations(range(len(rows))))
    written = RowEncoder.of(types).encode(columns_of(types, rows))

    decoded = RowDecoder.of(types).decode(written.take(order))

    assert decoded == columns_of(types, [rows[i] for i in order])


@cases("bits", range(64))
def test_whole_numbers_of_every_size_round_trip(bits):
    numbers = [n for n in (2**bits - 1, -(2**bits), 2**bits // 3) if -FAR - 1 <= n <= FAR]
    types, columns = [BigIntType()], [pa.array(numbers, pa.int64())]

    rows = RowEncoder.of(types).encode(columns)

    assert rows.to_list() == [reference.write_row(types, [n]) for n in numbers]
    assert RowDecoder.of(types).decode(rows) == columns


@cases("unit_precision", [0, 3, 6, 9])
def test_timestamps_at_both_ends_of_time_round_trip(unit_precision):
    types = [TimestampType(precision=unit_precision)]
    ends = [FAR // 1000, -(FAR // 1000)] if unit_precision == 0 else [FAR, -FAR - 1]
    columns = [pa.array(ends, arrow_type(types[0]))]

    assert RowDecoder.of(types).decode(RowEncoder.of(types).encode(columns)) == columns


def test_a_timestamp_too_far_for_milliseconds_is_refused():
    column = pa.array([None, FAR], pa.timestamp("s"))

    with pytest.raises(CorruptBatchError, match="out of the range"):
        RowEncoder.of([TimestampType(precision=0)]).encode([column])


@cases("precision", [6, 9])
def test_times_lose_what_is_finer_than_a_millisecond(precision):
    data_type = TimeType(precision=precision)
    per_milli = 10 ** (precision - 3)
    column = pa.array([7 * per_milli + 9, None], arrow_type(data_type))

    decoded = RowDecoder.of([data_type]).decode(RowEncoder.of([data_type]).encode([column]))

    assert decoded == [pa.array([7 * per_milli, None], arrow_type(data_type))]


def test_no_rows_make_no_rows():
    types = [IntType(), ArrayType(element=StringType())]
    columns = [pa.array([], arrow_type(each)) for each in types]

    rows = RowEncoder.of(types).encode(columns)

    assert len(rows) == 0
    assert RowDecoder.of(types).decode(rows) == columns


def test_a_deep_value_round_trips():
    leaf = RowType(fields=(RowField(name="x", type=ArrayType(element=StringType())),))
    types = [ArrayType(element=MapType(key=StringType(nullable=False), value=leaf))]
    value = [[[("k", {"x": ["a", None, "longer than seven"]}), ("l", None)], None, []], None, []]
    columns = [pa.array(value, arrow_type(types[0]))]

    assert RowDecoder.of(types).decode(RowEncoder.of(types).encode(columns)) == columns


def test_an_array_of_more_than_a_word_of_nulls_round_trips():
    types = [ArrayType(element=IntType())]
    columns = [pa.array([[None, 1] * 40, [None] * 33, [5]], arrow_type(types[0]))]

    rows = RowEncoder.of(types).encode(columns)

    assert rows.to_list() == [reference.write_row(types, [v]) for v in columns[0].to_pylist()]
    assert RowDecoder.of(types).decode(rows) == columns


def test_rows_without_fields_round_trip():
    types = [RowType(fields=()), IntType()]
    columns = [pa.array([{}, None], arrow_type(types[0])), pa.array([None, 2], pa.int32())]

    rows = RowEncoder.of(types).encode(columns)

    assert rows.to_list() == [b"\2\0", b"\1\2"]
    assert RowDecoder.of(types).decode(rows) == columns


def test_what_a_null_hides_is_not_written():
    data_type = RowType(fields=(RowField(name="t", type=TimestampType(precision=0)),))
    far = pa.array([FAR, 1], pa.timestamp("s"))
    mask = pa.array([True, False])
    columns = [pa.StructArray.from_arrays([far], fields=list(arrow_type(data_type)), mask=mask)]

    rows = RowEncoder.of([data_type]).encode(columns)

    assert rows.to_list() == [b"\1", b"\0\3\0\xe8\7"]


@given(st.lists(data_types(), min_size=1, max_size=4), st.integers(1, 9))
def test_columns_of_nulls_round_trip(types, count):
    columns = [pa.nulls(count, arrow_type(each)) for each in types]

    rows = RowEncoder.of(types).encode(columns)

    assert rows.to_list() == [bytes([2 ** len(types) - 1])] * count
    assert RowDecoder.of(types).decode(rows, enforce_not_null=False) == columns
