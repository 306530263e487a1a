from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidValueError, UnsupportedError
from headwater.model.arrow import arrow_type
from headwater.model.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
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
from headwater.rows.aligned_row import encode_row
from headwater.rows.buckets import murmur3_32
from headwater.rows.keys import IcebergKeys, PaimonKeys
from tests.cases import cases
from tests.rows.strategies import arrays, scalar_types

NANOS_OF = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
MILLIS_OF = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 10**6)}


ALL_TYPES = [
    (BooleanType(), True),
    (TinyIntType(), -2),
    (SmallIntType(), 10),
    (IntType(), -100),
    (BigIntType(), 1234567890123456789),
    (FloatType(), 13.2),
    (DoubleType(), -15.21),
    (DateType(), 19655),
    (TimeType(), 34200),
    (BinaryType(length=10), b"1234567890"),
    (BytesType(), b"20"),
    (CharType(length=2), "1"),
    (StringType(), "hello fluss and paimon"),
    (DecimalType(precision=5, scale=2), Decimal("-1.23")),
    (DecimalType(precision=20, scale=0), Decimal(-12345678901234567890)),
    (TimestampType(precision=3), 1698235273182),
    (TimestampType(precision=9), 1698235273182045678),
    (TimestampLtzType(precision=3), -1698235273182),
    (TimestampLtzType(precision=6), 1698235273182123),
    (StringType(), None),
]
# Written by Apache Fluss's own encoder.
ALL_TYPES_KEY = bytes.fromhex(
    "00000008000000000100000000000000fe000000000000000a00000000000000"
    "9cffffff000000001581e97df41022113333534100000000ec51b81e856b2ec0"
    "c74c000000000000c0d90902000000000a000000a80000003230000000000082"
    "310000000000008116000000b800000085ffffffffffffff09000000d0000000"
    "decfb5668b0100006eb20000e000000022304a9974feffff78e00100e8000000"
    "00000000000000003132333435363738393000000000000068656c6c6f20666c"
    "75737320616e64207061696d6f6e0000ff54ab567314e0f52e00000000000000"
    "decfb5668b010000decfb5668b010000"
)


def literal(scalar: pa.Scalar) -> object:
    """Return a value as aligned rows take it, which differs for times only."""
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(scalar.type):
        return scalar.value * NANOS_OF[scalar.type.unit]
    if pa.types.is_time(scalar.type):
        times, per = MILLIS_OF[scalar.type.unit]
        return scalar.value * times // per
    if pa.types.is_date(scalar.type):
        return scalar.value
    return scalar.as_py()


@st.composite
def key_columns(draw):
    types = draw(
        st.lists(
            scalar_types().filter(
                # The oracle does not know bytes, and seconds reach further than its milliseconds.
                lambda each: (
                    not isinstance(each, BytesType | BinaryType)
                    and getattr(each, "precision", 3) > 0
                )
            ),
            min_size=1,
            max_size=4,
        )
    )
    count = draw(st.integers(1, 6))
    return types, [draw(arrays(each, count)) for each in types]


@given(key_columns())
def test_paimon_keys_are_aligned_rows(drawn):
    types, columns = drawn

    keys = PaimonKeys.of(types).encode(columns)

    arrow = [arrow_type(each) for each in types]
    rows = zip(*(map(literal, column) for column in columns), strict=True)
    assert keys.to_list() == [encode_row(arrow, row) for row in rows]


def test_paimon_keys_of_more_fields_than_one_word_has_bits():
    types = [TinyIntType()] * 60
    columns = [pa.array([None if i in (0, 56, 59) else i], pa.int8()) for i in range(60)]

    (key,) = PaimonKeys.of(types).encode(columns).to_list()

    assert key == encode_row([pa.int8()] * 60, [column[0].as_py() for column in columns])


def test_paimon_keys_hold_bytes_like_text():
    columns = [pa.array([b"short", b"longer than seven", b"", None])]

    of_bytes = PaimonKeys.of([BytesType()]).encode(columns)

    texts = [column.cast(pa.string()) for column in columns]
    assert of_bytes.to_list() == PaimonKeys.of([StringType()]).encode(texts).to_list()


def test_a_paimon_key_of_all_types_is_the_one_that_fluss_writes():
    types = [data_type for data_type, _ in ALL_TYPES]
    columns = [pa.array([value], arrow_type(data_type)) for data_type, value in ALL_TYPES]

    assert PaimonKeys.of(types).encode(columns).to_list() == [ALL_TYPES_KEY]


def test_a_paimon_key_of_one_number_is_a_header_and_a_slot():
    (key,) = PaimonKeys.of([IntType()]).encode([pa.array([-2], pa.int32())]).to_list()

    assert key == bytes(8) + b"\xfe\xff\xff\xff" + bytes(4)


# From appendix B of Iceberg's table specification.
@cases(
    ("data_type", "value", "hashed"),
    [
        (IntType(), 34, 2017239379),
        (BigIntType(), 34, 2017239379),
        (DecimalType(precision=9, scale=2), Decimal("14.20"), -500754589),
        (DecimalType(precision=38, scale=2), Decimal("14.20"), -500754589),
        (DateType(), 17486, -653330422),
        (TimeType(precision=3), 81068000, -662762989),
        (TimeType(precision=6), 81068000000, -662762989),
        (TimestampType(precision=0), 1510871468, -2047944441),
        (TimestampType(precision=3), 1510871468000, -2047944441),
        (TimestampType(precision=6), 1510871468000000, -2047944441),
        (TimestampType(precision=9), 1510871468000000999, -2047944441),
        (StringType(), "iceberg", 1210000089),
        (BinaryType(length=4), b"\x00\x01\x02\x03", -188683207),
        (BytesType(), b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_iceberg_keys_have_the_hashes_of_icebergs_specification(data_type, value, hashed):
    keys = IcebergKeys.of([data_type]).encode([pa.array([value], arrow_type(data_type))])

    assert murmur3_32(keys, seed=0).view(np.int32).tolist() == [hashed]


def test_iceberg_keys_of_floats_are_their_bytes():
    floats = IcebergKeys.of([FloatType()]).encode([pa.array([1.5, 2.0], pa.float32())])
    doubles = IcebergKeys.of([DoubleType()]).encode([pa.array([1.5, 2.0])])

    assert floats.to_list() == [np.float32(each).tobytes() for each in (1.5, 2.0)]
    assert doubles.to_list() == [np.float64(each).tobytes() for each in (1.5, 2.0)]


@cases("data_type", [BooleanType(), TinyIntType(), TimestampLtzType()])
def test_types_that_fluss_gives_no_bucket_in_iceberg_are_refused(data_type):
    with pytest.raises(UnsupportedError, match="bucket key"):
        IcebergKeys.of([data_type])


def test_iceberg_takes_exactly_one_bucket_key():
    with pytest.raises(UnsupportedError, match="2 bucket keys"):
        IcebergKeys.of([IntType(), IntType()])


@cases("values", [["a", None], ["a", ""]])
def test_iceberg_keys_that_are_null_or_empty_are_refused(values):
    with pytest.raises(InvalidValueError, match="null or empty"):
        IcebergKeys.of([StringType()]).encode([pa.array(values)])
