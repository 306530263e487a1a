"""Keys of primary-key tables."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidValueError
from headwater.model.arrow import arrow_type
from headwater.model.types import BigIntType, IntType, StringType
from headwater.rows.compacted.coders import KeyDecoder, KeyEncoder
from headwater.rows.row_bytes import RowBytes
from tests.rows import compacted_reference as reference
from tests.rows.strategies import is_storable, scalar_types, values


@st.composite
def keys(draw):
    storable = scalar_types().filter(is_storable).map(lambda each: each.not_null())
    types = draw(st.lists(storable, min_size=1, max_size=4))
    return types, draw(st.lists(st.tuples(*map(values, types)), min_size=1, max_size=6))


def columns_of(types, rows) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], arrow_type(t)) for i, t in enumerate(types)]


@given(keys())
def test_keys_are_rows_without_null_bits(drawn):
    types, rows = drawn

    encoded = KeyEncoder.of(types).encode(columns_of(types, rows))

    assert encoded.to_list() == [reference.write_row(types, r, null_bits=False) for r in rows]
    assert KeyDecoder.of(types).decode(encoded) == columns_of(types, rows)


@given(keys(), st.integers(0, 4))
def test_a_prefix_ends_after_its_last_field(drawn, count):
    types, rows = drawn
    encoded = KeyEncoder.of(types).encode(columns_of(types, rows))

    ends = KeyDecoder.of(types).prefix_ends(encoded, count)

    prefixes = RowBytes(encoded.data, encoded.starts, ends).to_list()
    kept = types[:count]
    assert prefixes == [reference.write_row(kept, r[:count], null_bits=False) for r in rows]


def test_the_key_of_a_small_number_is_one_byte():
    encoded = KeyEncoder.of([IntType()]).encode([pa.array([1, 127, 128, -1], pa.int32())])

    assert encoded.to_list() == [b"\x01", b"\x7f", b"\x80\x01", b"\xff\xff\xff\xff\x0f"]


def test_a_null_in_a_key_is_refused():
    columns = [pa.array([1, 2], pa.int64()), pa.array(["a", None])]

    with pytest.raises(InvalidValueError, match=r"column 1 \(STRING\) of a key contains 1 nulls"):
        KeyEncoder.of([BigIntType(), StringType()]).encode(columns)


def test_no_keys_have_no_prefixes():
    nothing = RowBytes.of([])

    assert KeyDecoder.of([IntType()]).decode(nothing) == [pa.array([], pa.int32())]
    assert len(KeyDecoder.of([IntType()]).prefix_ends(nothing, 1)) == 0
