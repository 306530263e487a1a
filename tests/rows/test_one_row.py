"""A row that is read alone is as it is among many."""

from datetime import date, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.model.arrow import arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    DateType,
    DoubleType,
    IntType,
    StringType,
    TimestampType,
)
from headwater.rows.compacted.coders import RowDecoder, RowEncoder
from headwater.rows.compacted.one_row import OneRowDecoder
from headwater.rows.row_bytes import RowBytes
from tests.rows import compacted_reference as reference
from tests.rows.strategies import is_storable, scalar_types, values


@st.composite
def rows(draw):
    kinds = draw(st.lists(scalar_types().filter(is_storable), min_size=1, max_size=10))
    return kinds, reference.write_row(kinds, draw(st.tuples(*map(values, kinds))))


def among_many(types, row):
    try:
        return RowDecoder.of(types).decode(RowBytes.of([row]))
    except CorruptBatchError:
        return None


def shown(columns):
    """Compare as text, because NaN is not equal to itself."""
    return None if columns is None else [(each.type, each.to_string()) for each in columns]


@given(rows())
def test_a_row_is_read_as_it_is_among_many_or_left_to_be_read_so(given_row):
    types, row = given_row
    decoder = OneRowDecoder.of(types)
    found = None if decoder is None else decoder.decode(row)

    assert found is None or shown(found) == shown(among_many(types, row))


@given(rows(), st.data())
def test_a_damaged_row_is_not_read_otherwise_than_among_many(given_row, data):
    types, row = given_row
    damaged = bytearray(row)
    damaged[data.draw(st.integers(0, len(row) - 1))] ^= data.draw(st.integers(1, 255))
    decoder = OneRowDecoder.of(types)
    found = None if decoder is None else decoder.decode(bytes(damaged))

    assert found is None or shown(found) == shown(among_many(types, bytes(damaged)))


@given(rows(), st.data())
def test_plain_values_of_a_row_are_what_arrow_shows_of_it(given_row, data):
    types, row = given_row
    damaged = bytearray(row)
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(row) - 1))] ^= data.draw(st.integers(1, 255))
    decoder = OneRowDecoder.of(types)
    plain = None if decoder is None else decoder.plain(bytes(damaged))

    if plain is not None:
        expected = [each[0].as_py() for each in among_many(types, bytes(damaged))]
        assert repr(plain) == repr(expected)
        assert list(map(type, plain)) == list(map(type, expected))


def test_plain_values_are_read_of_all_that_is_common():
    types = [IntType(), StringType(), DateType(), TimestampType(), DoubleType(), BooleanType()]
    values = (5, "x", date(2026, 3, 1), datetime(2026, 3, 1, 12, 30), 0.5, True)
    columns = [
        pa.array([value], arrow_type(kind)) for value, kind in zip(values, types, strict=True)
    ]
    (row,) = RowEncoder.of(types).encode(columns).to_list()

    assert OneRowDecoder.of(types).plain(row) == list(values)


def test_simple_rows_are_read_alone():
    types = [IntType(nullable=False), StringType(), BigIntType()]
    row = reference.write_row(types, (-5, None, 2**40))

    found = OneRowDecoder.of(types).decode(row)

    assert [each.to_pylist() for each in found] == [[-5], [None], [2**40]]


def test_nested_rows_are_not():
    assert OneRowDecoder.of([ArrayType(element=IntType())]) is None
