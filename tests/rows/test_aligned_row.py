from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.rows.aligned_row import decode_row, encode_row
from tests.cases import cases

ANY_TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.string(),
    pa.string(),
    pa.decimal128(18, 2),
    pa.decimal128(38, 10),
    pa.timestamp("ms"),
    pa.timestamp("ns"),
]


@st.composite
def rows(draw):
    decimals = st.integers(-(10**18) + 1, 10**18 - 1)
    values = (
        st.booleans(),
        st.integers(-128, 127),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(width=32, allow_nan=False),
        st.text(max_size=8),
        st.text(),
        decimals.map(lambda n: Decimal(n).scaleb(-2)),
        st.integers(1 - 10**28, 10**28 - 1).map(lambda n: Decimal(n).scaleb(-10)),
        st.integers(-(2**40), 2**40).map(lambda millis: millis * 1_000_000),
        st.integers(-(2**63), 2**63 - 1),
    )
    return tuple(draw(st.none() | value) for value in values)


@given(row=rows())
def test_a_row_reads_back(row):
    assert decode_row(ANY_TYPES, encode_row(ANY_TYPES, row)) == row


def test_null_bits_start_behind_eight_reserved_bits():
    row = encode_row([pa.int32(), pa.int32()], [None, 5])

    assert row == bytes.fromhex("0001000000000000 0000000000000000 0500000000000000")


@cases(("fields", "null_bytes"), [(56, 8), (57, 16)])
def test_null_bits_fill_whole_words(fields, null_bytes):
    row = encode_row([pa.int8()] * fields, [1] * fields)

    assert len(row) == null_bytes + 8 * fields


def test_short_text_stays_in_its_slot_and_long_text_moves_to_the_tail():
    row = encode_row([pa.string(), pa.string()], ["abc", "abcdefgh"])

    assert row[8:16] == b"abc\0\0\0\0\x83"
    assert row[16:24] == bytes.fromhex("0800000018000000")
    assert row[24:] == b"abcdefgh"


@cases(
    ("unscaled", "size"),
    [(0, 1), (-1, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (10**37, 16)],
)
def test_large_decimals_take_the_fewest_bytes_that_keep_their_sign(unscaled, size):
    row = encode_row([pa.decimal128(38, 0)], [Decimal(unscaled)])

    payload = unscaled.to_bytes(size, "big", signed=True)
    assert row[8] == size
    assert row[16:] == payload.ljust(16, b"\0")


@given(data=st.binary(max_size=120))
def test_random_bytes_are_read_or_refused(data):
    try:
        row = decode_row(ANY_TYPES, data)
    except CorruptBatchError:
        return

    assert len(row) == len(ANY_TYPES)


@given(row=rows(), at=st.integers(0, 200), value=st.binary(min_size=1, max_size=8))
def test_a_damaged_row_is_read_or_refused(row, at, value):
    data = bytearray(encode_row(ANY_TYPES, row))
    data[at : at + len(value)] = value

    try:
        damaged = decode_row(ANY_TYPES, bytes(data))
    except CorruptBatchError:
        return

    assert len(damaged) == len(ANY_TYPES)
