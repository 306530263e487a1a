from datetime import UTC, date, datetime, time
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from headwater.errors import InvalidValueError
from headwater.rows.plain_values import column_of
from tests.cases import cases

DAY = date(2024, 1, 1)
NOON = datetime(2024, 1, 1, 12)
INSTANT = datetime(2024, 1, 1, tzinfo=UTC)
FINE = datetime(2024, 1, 1, 0, 0, 0, 5)
MAP = pa.map_(pa.string(), pa.timestamp("ms"))
STRUCT = pa.struct([("a", pa.float32()), ("b", pa.list_(pa.date32()))])


@cases(
    ("kind", "value"),
    [
        (pa.int8(), 5),
        (pa.int32(), 5.0),
        (pa.float32(), 1.5),
        (pa.float32(), float("inf")),
        (pa.float32(), 7),
        (pa.decimal128(5, 2), 1),
        (pa.decimal128(5, 2), Decimal("1.5")),
        (pa.binary(2), b"ab"),
        (pa.date32(), DAY),
        (pa.time32("s"), time(1, 2, 3)),
        (pa.timestamp("us"), FINE),
        (pa.timestamp("ms", "UTC"), INSTANT),
        (MAP, [("a", NOON), ("b", None)]),
        (STRUCT, {"a": 1.5, "b": [DAY, None]}),
        (STRUCT, {"a": 1.5, "b": None}),
    ],
)
def test_values_that_fit_are_kept(kind, value):
    found = column_of([value, None], pa.field("c", kind))

    assert found.type == kind
    assert found.to_pylist() == [value, None]


def test_values_may_be_written_as_people_write_them():
    struct = pa.struct([("day", pa.date32()), ("sums", pa.list_(pa.decimal128(5, 2)))])
    for kind, given, meant in [
        (pa.date32(), "2024-01-01", DAY),
        (pa.timestamp("us"), "2024-01-01 12:00", NOON),
        (pa.timestamp("us"), "2024-01-01T12:00:00.000000", NOON),
        (pa.timestamp("ms", "UTC"), "2024-01-01T02:00:00+02:00", INSTANT),
        (pa.timestamp("ms", "UTC"), "2024-01-01T00:00:00Z", INSTANT),
        (pa.time32("s"), "01:02:03", time(1, 2, 3)),
        (pa.decimal128(5, 2), "1.5", Decimal("1.50")),
        (pa.decimal128(5, 2), 7, Decimal("7.00")),
        (MAP, {"a": "2024-01-01T12:00:00"}, [("a", NOON)]),
        (struct, {"day": "2024-01-01", "sums": ["1.5", 2, None]}, None),
    ]:
        found = column_of([given, None], pa.field("c", kind)).to_pylist()
        expected = {"day": DAY, "sums": [Decimal("1.50"), Decimal("2.00"), None]}
        assert found == [meant or expected, None], (kind, given)
    mixed = column_of(["2024-01-01", DAY], pa.field("c", pa.date32()))
    assert mixed.to_pylist() == [DAY, DAY]


@cases(
    ("kind", "value", "why"),
    [
        (pa.int8(), 300, "does not fit"),
        (pa.int64(), 2**70, "does not fit"),
        (pa.int32(), 1.5, "is not a whole number"),
        (pa.int32(), Decimal("1.5"), "is not a whole number"),
        (pa.list_(pa.int32()), [1.5], "is not a whole number"),
        (pa.int32(), "x", "is not a whole number"),
        (pa.int32(), True, "does not fit"),
        (pa.string(), 5, "does not fit"),
        (pa.float32(), 1e300, "is too large"),
        (pa.decimal128(5, 2), 1.5, r"is not exact; use Decimal\('1\.5'\)"),
        (pa.decimal128(5, 2), Decimal("1.555"), "does not fit"),
        (pa.decimal128(5, 2), "1.555", "does not fit"),
        (pa.decimal128(5, 2), "much", "is not a number"),
        (pa.date32(), "1.3.2026", "nor a text such as '2026-03-01'"),
        (pa.timestamp("us"), "2026-03-01T00:00:00.1234567", "is not a datetime"),
        (pa.timestamp("us", "UTC"), "2026-03-01T00:00:00", "has no time zone"),
        (pa.binary(2), b"abc", "does not fit"),
        (pa.date32(), NOON, "has a time of day"),
        (pa.date32(), 5, "is not a date"),
        (pa.time32("ms"), time(1, 2, 3, 4), "is finer than the column"),
        (pa.time32("ms"), time(1, tzinfo=UTC), "has a time zone"),
        (pa.time32("ms"), 5, "is not a time of day"),
        (pa.timestamp("ms"), FINE, "is finer than the column"),
        (pa.timestamp("us"), pd.Timestamp(5), "is finer than the column"),
        (pa.timestamp("ms"), 5, "is not a datetime"),
        (pa.timestamp("ms"), INSTANT, "has a time zone"),
        (pa.timestamp("ms", "UTC"), NOON, "has no time zone"),
        (pa.list_(pa.timestamp("ms")), [None, INSTANT], "has a time zone"),
        (MAP, {"a": INSTANT}, "has a time zone"),
        (MAP, [("a",)], "is not a map"),
        (STRUCT, {"a": 1, "z": 2}, "has the unknown field 'z'"),
        (STRUCT, {"b": [NOON]}, "has a time of day"),
        (pa.list_(pa.int32()), 5, "is not a list"),
        (pa.list_(pa.string()), 5, "does not fit"),
        (pa.list_(pa.int32()), "abc", "is not a list"),
        (MAP, 5, "is not a map"),
        (STRUCT, 5, "is not a row"),
        (STRUCT, (1e300, None), "is too large"),
    ],
)
def test_values_that_do_not_fit_are_named_with_the_reason(kind, value, why):
    with pytest.raises(InvalidValueError, match=why) as caught:
        column_of([None, value], pa.field("c", kind))

    assert "The column 'c' of type" in str(caught.value)


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(InvalidValueError) as caught:
        column_of(["x" * 1000], pa.field("c", pa.int32()))

    assert len(str(caught.value)) < 250
