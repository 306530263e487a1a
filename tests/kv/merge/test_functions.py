"""What each aggregate function makes of two values, at the edges of their types."""

import datetime as dt
import math
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from headwater.errors import InvalidTableError, RecordTooLargeError, ValueOverflowError
from headwater.kv.merge import aggregate as rounds
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.types import (
    BigIntType,
    BooleanType,
    BytesType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)
from tests.kv.merge.tables import Table, folded, table

AGGREGATION = {"table.merge-engine": "aggregation"}
MONEY = DecimalType(precision=4, scale=2)
WIDE = DecimalType(precision=19, scale=0)
WIDEST = DecimalType(precision=38, scale=0)


@pytest.fixture(params=[1, 1000], ids=["as vectors", "value by value"], autouse=True)
def round_keys_min(request, monkeypatch):
    monkeypatch.setattr(rounds, "ROUND_KEYS_MIN", request.param)


def merged(kind, data_type, *values, delimiter=None):
    one = Table(table(folded("v", kind, data_type, delimiter)), AGGREGATION)
    one.put([(0, (0, value)) for value in values])
    return one.rows[0][1]


def at(hour):
    return dt.datetime(2024, 1, 1, hour)


def utc(hour):
    return dt.datetime(2024, 1, 1, hour, tzinfo=ZoneInfo("UTC"))


@pytest.mark.parametrize(
    ("kind", "data_type", "values", "expected"),
    [
        ("sum", TinyIntType(), (127, 1), -128),
        ("sum", BigIntType(), (2**63 - 1, 1), -(2**63)),
        ("sum", IntType(), (None, 5, None, 6), 11),
        ("sum", FloatType(), (16777216.0, 1.0), 16777216.0),
        ("sum", FloatType(), (3e38, 3e38), math.inf),
        ("sum", MONEY, (Decimal("1.25"), Decimal("2.50")), Decimal("3.75")),
        ("sum", WIDE, (Decimal(10**19 - 1), Decimal(1)), None),
        ("sum", WIDEST, (Decimal(10**38 - 1), Decimal(-1)), Decimal(10**38 - 2)),
        ("product", IntType(), (2**30, 6), -(2**31)),
        ("product", MONEY, (Decimal("0.15"), Decimal("0.50")), Decimal("0.08")),
        ("product", MONEY, (Decimal("-0.15"), Decimal("0.50")), Decimal("-0.08")),
        ("product", MONEY, (Decimal("90.00"), Decimal("90.00")), None),
        ("product", MONEY, (Decimal("90.00"), Decimal("90.00"), Decimal("2.00")), Decimal("2.00")),
        ("max", DoubleType(), (-0.0, 0.0), 0.0),
        ("max", StringType(), ("\uffff", "\U0001f600"), "\U0001f600"),
        ("max", CharType(length=2), ("ab", "b"), "b"),
        ("max", MONEY, (Decimal("1.50"), Decimal("-2.00")), Decimal("1.50")),
        ("max", TimestampType(precision=3), (at(3), at(1)), at(3)),
        ("min", TimestampLtzType(precision=6), (utc(3), utc(1)), utc(1)),
        ("min", DateType(), (dt.date(2024, 1, 2), dt.date(1969, 1, 1)), dt.date(1969, 1, 1)),
        ("max", TimeType(precision=3), (dt.time(1), dt.time(2)), dt.time(2)),
        ("min", DoubleType(), (math.nan, 7.0), 7.0),
        ("last_value", BigIntType(), (1, None), None),
        ("last_value_ignore_nulls", BigIntType(), (1, None), 1),
        ("first_value", BigIntType(), (None, 2, 3), 2),
        ("first_value_ignore_nulls", BigIntType(), (None, 2, 3), 2),
        ("listagg", StringType(), ("a", None, "", "b"), "a,,b"),
        ("bool_and", BooleanType(), (True, None, False, True), False),
        ("bool_or", BooleanType(), (None, False, True, False), True),
    ],
)  # fmt: skip
def test_an_aggregate_function_folds_like_java(kind, data_type, values, expected):
    found = merged(kind, data_type, *values)

    # Which library says that a moment is in UTC depends on what is installed.
    assert repr(found).replace("<UTC>", repr(ZoneInfo("UTC"))) == repr(expected)


def test_not_a_number_is_the_largest_number():
    assert math.isnan(merged("max", FloatType(), math.inf, math.nan, 1.0))


def test_a_delimiter_stands_between_joined_values():
    assert merged("string_agg", StringType(), "a", "b", delimiter=" | ") == "a | b"


def test_a_compact_sum_that_is_too_long_is_refused_and_named():
    with pytest.raises(ValueOverflowError, match="Column 'v'"):
        merged("sum", MONEY, Decimal("99.99"), Decimal("0.01"))


def test_a_lost_product_is_refused_where_the_column_must_have_a_value():
    with pytest.raises(ValueOverflowError, match="NOT NULL"):
        merged("product", MONEY.not_null(), Decimal("90.00"), Decimal("90.00"))


def test_joined_values_have_a_limit(monkeypatch):
    monkeypatch.setattr(rounds, "COLUMN_BYTES_MAX", 1000)

    with pytest.raises(RecordTooLargeError, match="Column 'v'"):
        merged("listagg", StringType(), *["word"] * 100)


def test_the_name_of_a_function_is_read_in_any_case_and_with_hyphens():
    assert AggregateKind.of(" Last-Value-Ignore-Nulls ") is AggregateKind.LAST_VALUE_IGNORE_NULLS


def test_an_unknown_function_is_answered_with_the_known_ones():
    with pytest.raises(InvalidTableError, match="listagg"):
        AggregateKind.of("median")


@pytest.mark.parametrize(
    ("kind", "data_type"),
    [
        ("sum", StringType()),
        ("max", BooleanType()),
        ("min", BytesType()),
        ("listagg", BytesType()),
        ("bool_and", IntType()),
        ("rbm32", StringType()),
    ],
)
def test_a_function_refuses_a_type_that_it_cannot_fold(kind, data_type):
    with pytest.raises(InvalidTableError, match="does not support"):
        AggregateFunction(AggregateKind(kind)).check(data_type)


@pytest.mark.parametrize("kind", AggregateKind)
def test_only_joining_functions_take_a_delimiter_and_never_an_empty_one(kind):
    with pytest.raises(InvalidTableError):
        AggregateFunction(kind, "" if kind in ("listagg", "string_agg") else ";")
