"""Conditions as people write them."""

from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.values import conditions
from headwater.errors import RequestError
from tests.cases import cases

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("city", pa.string()),
        ("ok", pa.bool_()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("sent", pa.timestamp("ns", "UTC")),
        ("two words", pa.int64()),
    ]
)


@cases(
    ("text", "condition"),
    [
        ("n > 10", ("n", ">", 10)),
        ("n>=-1", ("n", ">=", -1)),
        ("n <> 3", ("n", "!=", 3)),
        ("n > 1.5", ("n", ">", Decimal("1.5"))),
        ("price = 1.10", ("price", "==", Decimal("1.10"))),
        ("ratio <= 1e3", ("ratio", "<=", 1000.0)),
        ("city = Rome", ("city", "==", "Rome")),
        ("city = 'New York'", ("city", "==", "New York")),
        ("city == 'it''s > 1'", ("city", "==", "it's > 1")),
        ("city in ('Rome', Oslo,'a,b')", ("city", "in", ["Rome", "Oslo", "a,b"])),
        ("n NOT IN (1,2)", ("n", "not in", [1, 2])),
        ("city starts with 'New '", ("city", "starts with", "New ")),
        ("city contains x", ("city", "contains", "x")),
        ("ok = true", ("ok", "==", True)),
        ("raw = 00ff", ("raw", "==", b"\x00\xff")),
        ("day < 2026-03-01", ("day", "<", date(2026, 3, 1))),
        ("sent >= 2026-03-01T12:00:00", ("sent", ">=", datetime(2026, 3, 1, 12, tzinfo=UTC))),
        ("city is null", ("city", "is null")),
        ("city IS  NOT null", ("city", "is not null")),
        ('"two words" = 1', ("two words", "==", 1)),
        ("city = ''", ("city", "==", "")),
    ],
)
def test_a_condition_gets_the_type_of_its_column(text, condition):
    assert conditions([text], SCHEMA) == [condition]


def test_conditions_are_joined_by_and_but_not_by_or():
    text = "n > 1 AND city = 'salt and pepper' and n in (1, 2) and city is null"

    assert conditions([text], SCHEMA) == [
        ("n", ">", 1),
        ("city", "==", "salt and pepper"),
        ("n", "in", [1, 2]),
        ("city", "is null"),
    ]
    assert conditions(["city = salt and pepper"], SCHEMA) == [("city", "==", "salt and pepper")]
    with pytest.raises(RequestError, match=r"only be joined by 'and'.*headwater sql"):
        conditions(["city = Rome or city = Oslo"], SCHEMA)


def test_several_conditions_stay_in_order():
    assert conditions(["n > 1", "n < 5"], SCHEMA) == [("n", ">", 1), ("n", "<", 5)]


@cases(
    ("text", "told"),
    [
        ("", "amount > 10"),
        ("n", "amount > 10"),
        ("n >", "amount > 10"),
        ("n = 1, 2", "amount > 10"),
        ("city = 'open", "amount > 10"),
        ("n in ()x", "amount > 10"),
        ("n in (1,,2)", "amount > 10"),
        ("unknown = 1", "The columns are n, price"),
        ("n = x", "'x' is not a value of type int32"),
        ("price = nan", "'nan' is not a value"),
        ("day = tomorrow", "2026-03-01"),
    ],
)
def test_a_condition_that_makes_no_sense_is_answered_with_a_way_out(text, told):
    with pytest.raises(RequestError, match=told):
        conditions([text], SCHEMA)


@given(st.text(max_size=20))
def test_any_text_can_be_looked_for_in_quotes(text):
    quoted = "'" + text.replace("'", "''") + "'"

    assert conditions([f"city = {quoted}"], SCHEMA) == [("city", "==", text)]


@given(st.text(max_size=30))
def test_whatever_is_typed_is_a_condition_or_a_wrong_request(text):
    with suppress(RequestError):
        assert conditions([text], SCHEMA)
