"""A single key is written as many are."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.types import (
    BigIntType,
    BooleanType,
    BytesType,
    DateType,
    DoubleType,
    IntType,
    SmallIntType,
    StringType,
    TinyIntType,
)
from headwater.rows.compacted.coders import KeyEncoder, RowEncoder
from headwater.rows.compacted.one_row import OneKeyEncoder, OneRowEncoder

TYPES = [IntType(), BigIntType(), StringType()]


def columns(*values):
    kinds = (pa.int32(), pa.int64(), pa.string())
    return [pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)]


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.text())
def test_one_key_is_written_as_the_encoder_of_many_writes_it(number, large, text):
    given_columns = columns(number, large, text)

    written = OneKeyEncoder.of(TYPES).encode(given_columns)

    assert [written] == KeyEncoder.of(TYPES).encode(given_columns).to_list()


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.text())
def test_a_key_of_plain_values_is_written_as_one_of_arrow(number, large, text):
    written = OneKeyEncoder.of(TYPES).encode_plain((number, large, text))

    assert written == OneKeyEncoder.of(TYPES).encode(columns(number, large, text))


def test_values_that_are_not_plain_are_left_to_who_can_say_what_is_wrong():
    encoder = OneKeyEncoder.of(TYPES)
    odd = [
        (None, 1, "a"),
        (True, 1, "a"),
        (1.0, 1, "a"),
        (np.int32(1), 1, "a"),
        ("1", 1, "a"),
        (2**31, 1, "a"),
        (-(2**31) - 1, 1, "a"),
        (1, 2**63, "a"),
        (1, 1, b"a"),
        (1, 1, "\ud800"),
        (1, 1, [1]),
    ]

    assert [values for values in odd if encoder.encode_plain(values) is not None] == []


def test_a_key_with_a_null_is_left_to_who_can_say_what_is_wrong():
    assert OneKeyEncoder.of(TYPES).encode(columns(1, None, "a")) is None


def test_keys_of_other_types_are_left_to_the_encoder_of_many():
    assert OneKeyEncoder.of([IntType(), DoubleType()]) is None


CELLS = {
    IntType(): (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    BigIntType(): (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    StringType(): (pa.string(), st.text()),
    BooleanType(): (pa.bool_(), st.booleans()),
    BytesType(): (pa.binary(), st.binary()),
    DoubleType(): (pa.float64(), st.floats()),
    TinyIntType(): (pa.int8(), st.integers(-128, 127)),
    SmallIntType(): (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
}


@given(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=20), st.data())
def test_one_row_is_written_as_the_encoder_of_many_writes_it(types, data):
    kinds = [CELLS[each] for each in types]
    given_columns = [pa.array([data.draw(st.none() | values)], kind) for kind, values in kinds]

    written = OneRowEncoder.of(types).encode(given_columns)

    assert [written] == RowEncoder.of(types).encode(given_columns).to_list()


def test_rows_of_other_types_are_left_to_the_encoder_of_many():
    assert OneRowEncoder.of([IntType(), DateType()]) is None
