"""Values as Spark keeps them within, as values that columns are compared with."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engines.spark.catalog.filters import value_of
from headwater.model.type_text import parse_type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "within", "expected"),
    [
        ("BOOLEAN", False, False),
        ("TINYINT", -5, -5),
        ("BIGINT", 2**62, 2**62),
        ("DOUBLE", 0.5, 0.5),
        ("STRING", "Zürich", "Zürich"),
        ("CHAR(3)", "abc", "abc"),
        ("BYTES", bytearray(b"\x00\xff"), b"\x00\xff"),
        ("DECIMAL(38, 10)", "1E+3", Decimal(1000)),
        ("DATE", -1, date(1969, 12, 31)),
        ("TIME(6)", 3_600_000_001_000, time(1, 0, 0, 1)),
        ("TIMESTAMP(6)", -1, datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        ("TIMESTAMP_LTZ(3)", 1000, datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
    ],
)
def test_a_value_is_what_the_column_would_give(kind, within, expected):
    assert value_of(within, parse_type(kind)) == expected


@pytest.mark.parametrize(
    ("kind", "within"),
    [
        ("DOUBLE", float("nan")),
        ("DATE", 10**9),
        ("TIMESTAMP(6)", 2**62),
        # Spark compares what is cut off at the microsecond.
        ("TIMESTAMP(9)", 0),
        ("TIME(9)", 0),
        ("TIME(6)", 1),
        ("DECIMAL(5, 2)", "ten"),
        ("INT", "1"),
        ("ARRAY<INT>", 1),
    ],
)
def test_what_has_no_exact_value_is_left_to_spark(kind, within):
    assert value_of(within, parse_type(kind)) is None


@given(st.datetimes())
def test_moments_are_exact_to_the_microsecond(moment):
    micros = (moment.replace(tzinfo=UTC) - EPOCH) // (EPOCH.resolution)

    assert value_of(micros, parse_type("TIMESTAMP(6)")) == moment
    assert value_of(micros, parse_type("TIMESTAMP_LTZ(6)")) == moment.replace(tzinfo=UTC)
