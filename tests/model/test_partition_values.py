from datetime import UTC, date, datetime, time

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.errors import InvalidPartitionError
from headwater.model.arrow import arrow_type
from headwater.model.partition_values import partition_texts, partition_value
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
from tests.cases import cases

NANOS = 1748662955428 * 10**6 + 99988
# What the tests of Apache Fluss expect, and Java's way to write floats.
FACTS = [
    (StringType(), "Fluss", "Fluss"),
    (CharType(length=1), "F", "F"),
    (BooleanType(), True, "true"),
    (BytesType(), bytes.fromhex("1020304050ff"), "1020304050ff"),
    (BinaryType(length=2), b"\x00\x0a", "000a"),
    (TinyIntType(), 100, "100"),
    (SmallIntType(), -32760, "-32760"),
    (IntType(), 299000, "299000"),
    (BigIntType(), 1748662955428, "1748662955428"),
    (DateType(), 20235, "2025-05-27"),
    (TimeType(precision=3), 5402199, "01-30-02_199"),
    (TimeType(precision=0), 5402, "01-30-02_000"),
    (TimeType(precision=9), 5402199999999, "01-30-02_199"),
    (FloatType(), 5.73, "5_73"),
    (DoubleType(), 5.73, "5_73"),
    (DoubleType(), -0.0, "-0_0"),
    (DoubleType(), 1.0, "1_0"),
    (DoubleType(), 0.001, "0_001"),
    (DoubleType(), 0.00012, "1_2E-4"),
    (DoubleType(), 9999999.0, "9999999_0"),
    (DoubleType(), 1e7, "1_0E7"),
    (DoubleType(), -1.25e300, "-1_25E300"),
    (DoubleType(), 5e-324, "4_9E-324"),
    (FloatType(), 1.4e-45, "1_4E-45"),
    (FloatType(), 16777216.0, "1_6777216E7"),
    (FloatType(), float("inf"), "Inf"),
    (DoubleType(), float("-inf"), "-Inf"),
    (DoubleType(), float("nan"), "NaN"),
    (TimestampType(precision=9), NANOS, "2025-05-31-03-42-35_428099988"),
    (TimestampType(precision=3), 1748662955428, "2025-05-31-03-42-35_428"),
    (TimestampType(precision=9), NANOS - 428 * 10**6, "2025-05-31-03-42-35_000099988"),
    (TimestampType(precision=0), 1748662955, "2025-05-31-03-42-35_"),
    (TimestampType(precision=9), 99988 - 1748662955428 * 10**6, "1914-08-03-20-17-24_572099988"),
    (TimestampLtzType(precision=6), 1748662955428099, "2025-05-31-03-42-35_428099"),
]


@cases(("data_type", "value", "text"), FACTS)
def test_a_value_is_written_as_fluss_writes_it(data_type, value, text):
    array = pa.array([value], arrow_type(data_type))

    assert partition_texts(array, data_type) == [text]


def test_years_beyond_four_digits_are_written_as_java_writes_them():
    dates = pa.array([2932897, -719529], pa.date32())
    timestamps = pa.array([253402300800, -62167219201], pa.timestamp("s"))

    assert partition_texts(dates, DateType()) == ["10000-01-01", "-001-12-31"]
    assert partition_texts(timestamps, TimestampType(precision=0)) == [
        "+10000-01-01-00-00-00_",
        "0002-12-31-23-59-59_",
    ]


@cases(
    ("data_type", "value"),
    [
        (StringType(), "eu"),
        (BooleanType(), False),
        (BytesType(), b"\x00\xff"),
        (BigIntType(), -5),
        (DateType(), date(2024, 2, 29)),
        (TimeType(precision=3), time(23, 59, 59, 999000)),
        (FloatType(), 0.25),
        (DoubleType(), -1e-9),
        (TimestampType(precision=6), datetime(2024, 2, 29, 1, 2, 3, 45)),
        (TimestampLtzType(precision=6), datetime(1969, 12, 31, 23, 59, 59, 1, UTC)),
    ],
)
def test_text_leads_back_to_its_value(data_type, value):
    (text,) = partition_texts(pa.array([value], arrow_type(data_type)), data_type)

    assert partition_value(text, data_type) == value


@given(st.floats(allow_nan=False))
def test_every_float_leads_back_to_itself(number):
    (text,) = partition_texts(pa.array([number]), DoubleType())

    assert partition_value(text, DoubleType()) == number


@given(st.datetimes())
def test_every_moment_leads_back_to_itself(moment):
    array = pa.array([moment], pa.timestamp("us"))
    (text,) = partition_texts(array, TimestampType())

    assert partition_value(text, TimestampType()) == moment


@given(st.text(max_size=12))
def test_text_that_is_no_value_is_refused_and_nothing_else_happens(text):
    assume(not text.strip("-").isdigit())

    with pytest.raises(InvalidPartitionError):
        partition_value(text, BigIntType())
    for data_type in (DateType(), TimeType(), TimestampType(), DoubleType(), BytesType()):
        try:
            partition_value(text, data_type)
        except InvalidPartitionError as error:
            assert "is no" in str(error)


def test_types_that_cannot_partition_are_refused():
    with pytest.raises(InvalidPartitionError, match="DECIMAL"):
        partition_value("1", DecimalType())
