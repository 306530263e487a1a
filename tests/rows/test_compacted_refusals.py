"""Rows that are malformed: refused with their place, never a crash, never a read too far."""

import re
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError, InvalidValueError
from headwater.model.arrow import arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    DecimalType,
    DoubleType,
    IntType,
    MapType,
    RowField,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)
from headwater.rows.compacted.coders import KeyDecoder, RowDecoder, RowEncoder
from headwater.rows.row_bytes import RowBytes
from tests.cases import cases
from tests.choices import examples
from tests.rows.compacted_reference import varint, write_row
from tests.rows.strategies import data_types, values

ELEMENT = struct.Struct("<II")
INT, TEXT, ARRAY = IntType(), StringType(), ArrayType(element=StringType())


def refuse(types, *rows: bytes, match: str, enforce_not_null: bool = True) -> None:
    kind = InvalidValueError if re.search("null|NULL", match) else CorruptBatchError
    with pytest.raises(kind, match=match):
        RowDecoder.of(types).decode(RowBytes.of(rows), enforce_not_null=enforce_not_null)


def sized(content: bytes) -> bytes:
    return b"\0" + varint(len(content)) + content


def array_of_text(*slots: tuple[int, int], tail: bytes = b"") -> bytes:
    head = struct.pack("<iI", len(slots), 0)
    return sized(head + b"".join(ELEMENT.pack(size, at) for size, at in slots) + tail)


@cases(
    ("types", "row", "why"),
    [
        ([INT], b"", "runs past the end"),
        ([INT], b"\0", "runs past the end"),
        ([INT], b"\0\x80", "runs past the end|does not end"),
        ([INT], b"\0\x80\x80\x80\x80\x80\x01", "does not end"),
        ([BigIntType()], b"\0" + b"\xff" * 10 + b"\x01", "does not end"),
        ([BigIntType()], b"\0" + b"\xff" * 11 + b"\x01", "does not end"),
        ([INT], b"\0\x01\x01", "followed by bytes"),
        ([INT], b"\x01\x01", "followed by bytes"),
        ([DoubleType()], b"\0" + bytes(7), "runs past the end"),
        ([TEXT], b"\0\x05abcd", "runs past the end"),
        ([TEXT], b"\0\x02\xc3\x28", "UTF-8"),
        ([TEXT], b"\0" + varint(2**32 - 1) + b"a", "negative length"),
        ([BinaryType(length=3)], b"\0\x02ab", "does not have 3 bytes"),
        ([DecimalType(precision=3)], b"\0" + varint(1000), "too many digits"),
        ([DecimalType(precision=19)], b"\0\x10\x7f" + bytes(15), "too many digits"),
        ([DecimalType(precision=38)], b"\0\x00", "size for a decimal"),
        ([DecimalType(precision=38)], b"\0\x11" + bytes(17), "size for a decimal"),
        ([TimeType()], b"\0" + varint(86_400_000), "time of day"),
        ([TimestampType(precision=6)], b"\0\x01" + varint(1_000_000), "nanoseconds"),
        ([TimestampType(precision=9)], b"\0" + varint(2**63 - 1) + b"\0", "out of range"),
        ([TimestampType(precision=0)], b"\0" + varint(2**63), "out of range"),
    ],
)
def test_a_malformed_field_is_refused(types, row, why):
    refuse(types, row, match=why)


@cases(
    ("row", "why"),
    [
        (sized(b"\0\0\0"), "too short for an array"),
        (sized(struct.pack("<i", -1)), "negative number"),
        (sized(struct.pack("<i", 2**31 - 1)), "more elements than bytes"),
        (sized(struct.pack("<iI", 1, 0)), "more elements than bytes"),
        (array_of_text((9, 16), tail=bytes(8)), "points outside"),
        (array_of_text((1, 2**31 - 1)), "points outside"),
        (array_of_text((0, 0x88 << 24)), "does not fit into its slot"),
        (array_of_text((20, 0), (20, 0), (20, 0)), "shares bytes"),
    ],
)
def test_a_malformed_array_is_refused(row, why):
    refuse([ARRAY], row, match=why)


def test_a_map_whose_keys_and_values_differ_in_number_is_refused():
    keys, none = struct.pack("<iIi4x", 1, 0, 7), struct.pack("<i4x", 0)
    types = [MapType(key=IntType(nullable=False), value=INT)]

    refuse(
        types, sized(struct.pack("<i", len(keys)) + keys + none), match="number of keys and values"
    )
    refuse(types, sized(struct.pack("<i", 99) + keys + none), match="keys that run past")
    refuse(types, sized(b"\1"), match="too short for a map")


def test_a_null_key_of_a_map_is_refused():
    keys, items = struct.pack("<iIi4x", 1, 1, 0), struct.pack("<iIi4x", 1, 0, 7)
    types = [MapType(key=INT, value=INT)]

    row = sized(struct.pack("<i", len(keys)) + keys + items)

    refuse(types, row, match=r"key is null, but it is declared NOT NULL")


def test_an_error_names_the_row_and_the_column():
    types = [INT, ARRAY]
    good = write_row(types, [None, ["x"]])
    bad = write_row(types, [None, ["x", "longer than seven bytes"]]).replace(b"long", b"l\xffng")

    refuse(types, good, good, b"\0", match=r"Row 2 .*column 0 \(INT\)")
    refuse(types, good, bad, match=r"Row 1 .*column 1 \(ARRAY\)\.item contains invalid UTF-8")

    wide = [DecimalType(precision=20)]
    refuse(wide, b"\0\1\1", b"\0\x10\x7f" + bytes(15), match=r"Row 1 .*too many digits")


def test_a_null_in_a_column_that_takes_none_is_refused_only_when_asked():
    types = [IntType(nullable=False), INT]
    rows = RowBytes.of([b"\0\1\1", b"\1\2"])

    columns = RowDecoder.of(types).decode(rows, enforce_not_null=False)

    assert [column.to_pylist() for column in columns] == [[1, None], [1, 2]]
    refuse(types, *rows.to_list(), match=r"Row 1 .*declared NOT NULL")


def test_a_null_in_a_nested_field_that_takes_none_is_always_refused():
    types = [RowType(fields=(RowField(name="x", type=IntType(nullable=False)),))]

    refuse(types, b"\0\1\1", match=r"\(ROW\)\.x is null", enforce_not_null=False)


def attempt(types, rows: RowBytes) -> None:
    try:
        columns = RowDecoder.of(types).decode(rows)
    except (CorruptBatchError, InvalidValueError):
        return
    for column, data_type in zip(columns, types, strict=True):
        column.validate(full=True)
        assert column.type == arrow_type(data_type)
    RowEncoder.of(types).encode(columns)


@st.composite
def mutated(draw):
    types = draw(st.lists(data_types(), min_size=1, max_size=3))
    row = st.tuples(*map(values, types))
    drawn = draw(st.lists(row, min_size=1, max_size=4))
    columns = [pa.array([r[i] for r in drawn], arrow_type(t)) for i, t in enumerate(types)]
    try:
        rows = RowEncoder.of(types).encode(columns)
    except (CorruptBatchError, InvalidValueError):
        rows = RowBytes.of([b"\0"])
    data = rows.data.copy()
    size = int(rows.ends[-1])
    for place in draw(st.lists(st.integers(0, size - 1), max_size=6)):
        data[place] = draw(st.sampled_from((0, 1, 4, 8, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    return types, RowBytes(data, rows.starts, rows.ends)


@given(mutated())
@settings(max_examples=examples(300))
def test_a_damaged_row_is_read_or_refused(drawn):
    types, rows = drawn

    attempt(types, rows)


@given(mutated(), st.integers(0, 60))
def test_a_row_cut_short_is_read_or_refused(drawn, kept):
    types, rows = drawn

    attempt(types, RowBytes.of([row[:kept] for row in rows.to_list()]))


@given(st.lists(data_types(), min_size=1, max_size=4), st.lists(st.binary(max_size=40)))
def test_noise_is_read_or_refused(types, rows):
    attempt(types, RowBytes.of(rows))
    try:
        KeyDecoder.of(types).decode(RowBytes.of(rows))
        KeyDecoder.of(types).prefix_ends(RowBytes.of(rows), 1)
    except (CorruptBatchError, InvalidValueError):
        return


def test_rows_without_padding_are_a_mistake_of_ours():
    rows = RowBytes(np.zeros(9, np.uint8), np.array([0]), np.array([9]))

    with pytest.raises(AssertionError, match="padding"):
        RowDecoder.of([INT]).decode(rows)
