"""A row that is read alone is as it is among many."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.model.types import ArrayType, BigIntType, IntType, StringType
from headwater.rows.compacted.decode import RowDecoder
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


def test_simple_rows_are_read_alone():
    types = [IntType(nullable=False), StringType(), BigIntType()]
    row = reference.write_row(types, (-5, None, 2**40))

    found = OneRowDecoder.of(types).decode(row)

    assert [each.to_pylist() for each in found] == [[-5], [None], [2**40]]


def test_nested_rows_are_not():
    assert OneRowDecoder.of([ArrayType(element=IntType())]) is None
