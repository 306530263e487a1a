"""Filters, against what plain Python makes of them."""

import math
import operator
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RequestError
from headwater.model.arrow import arrow_schema
from headwater.model.predicate import And, Leaf, LeafFunction, Or
from headwater.model.schema import Column, Schema
from headwater.model.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    BytesType,
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
from headwater.read.filters import Filter
from headwater.rows.statistics import decode_statistics, encode_statistics, may_match
from headwater.wire.predicates import predicate_from_wire, predicate_to_wire
from tests.cases import cases

TYPES = {
    "tiny": TinyIntType(),
    "number": IntType(),
    "money": DecimalType(precision=5, scale=2),
    "big": DecimalType(precision=30, scale=3),
    "float": FloatType(),
    "double": DoubleType(),
    "text": StringType(),
    "flag": BooleanType(),
    "raw": BytesType(),
    "fixed": BinaryType(length=2),
    "day": DateType(),
    "clock": TimeType(precision=3),
    "fine": TimeType(precision=9),
    "local": TimestampType(precision=0),
    "instant": TimestampLtzType(precision=6),
    "list": ArrayType(element=IntType()),
}
SCHEMA = Schema(
    columns=tuple(
        Column(name=name, type=kind, column_id=at) for at, (name, kind) in enumerate(TYPES.items())
    )
)
ARROW = arrow_schema(SCHEMA)
FEW = {
    "tiny": st.sampled_from([-128, -1, 0, 1, 127]),
    "number": st.integers(-3, 3),
    "money": st.sampled_from([Decimal("-1.00"), Decimal("0.25"), Decimal("999.99")]),
    "big": st.sampled_from([Decimal("-1.000"), Decimal("123456789012345678901.125")]),
    "double": st.sampled_from([-1.5, -0.0, 0.0, 2.5, math.inf, math.nan]),
    "float": st.sampled_from([-1.5, -0.0, 0.0, 2.5, math.inf, math.nan]),
    "text": st.sampled_from(["", "a", "ab", "b", "é"]),
    "raw": st.sampled_from([b"", b"a", b"\xff"]),
    "fixed": st.sampled_from([b"ab", b"\xff\x00"]),
    "day": st.sampled_from([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]),
    "clock": st.sampled_from([time(0), time(1, 2, 3, 4000), time(23, 59, 59, 999000)]),
    "fine": st.sampled_from([time(0), time(1, 2, 3, 4000), time(1, 2, 3, 4001)]),
    "local": st.sampled_from([datetime(1969, 12, 31, 23), datetime(2024, 1, 1)]),
    "instant": st.sampled_from(
        [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]
    ),
}
BETWEEN = {
    "tiny": st.sampled_from([-1000, -128.5, 0.5, 127.5, 1000]),
    "number": st.sampled_from([0.5, Decimal("-0.5"), 2**40, -(2**40)]),
    "money": st.sampled_from([1, Decimal("0.255"), Decimal(10**6), Decimal(-(10**6))]),
    "big": st.sampled_from([Decimal("-1.0001"), 5]),
    "local": st.sampled_from([datetime(2024, 1, 1, 0, 0, 0, 500_000)]),
    "clock": st.sampled_from([time(1, 2, 3, 4001)]),
}
COMPARE = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SEARCH = {
    "starts with": str.startswith,
    "contains": operator.contains,
    "ends with": str.endswith,
}


def holds(value, operator_, literal) -> bool:
    """Say what SQL says; what is not known is not true."""
    match operator_:
        case "is null":
            return value is None
        case "is not null":
            return value is not None
        case "in":
            return value is not None and any(value == each for each in literal)
        case "not in" if not literal:
            return True
        case "not in":
            return None not in literal and value is not None and all(value != e for e in literal)
    if value is None or literal is None:
        return False
    return (COMPARE | SEARCH)[operator_](value, literal)


@st.composite
def terms(draw):
    name = draw(st.sampled_from(list(FEW)))
    literal = st.one_of(FEW[name], BETWEEN.get(name, FEW[name]), st.none())
    kinds = [*COMPARE, "in", "not in", "is null", "is not null"]
    chosen = draw(st.sampled_from([*kinds, *SEARCH] if name == "text" else kinds))
    if chosen in ("is null", "is not null"):
        return name, chosen, None
    if chosen in ("in", "not in"):
        return name, chosen, draw(st.lists(literal, max_size=3))
    return name, chosen, draw(FEW[name] if chosen in SEARCH else literal)


rows_lists = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, values in FEW.items()}),
    min_size=1,
    max_size=5,
)
wheres = st.lists(st.lists(terms(), min_size=1, max_size=3), min_size=1, max_size=3)


def batch_of(rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=ARROW)


def spelled(where):
    return [[term[:2] if term[1].startswith("is") else term for term in each] for each in where]


@given(rows_lists, wheres)
def test_rows_pass_that_python_lets_pass(rows, where):
    mask = Filter.of(spelled(where), SCHEMA).mask(batch_of(rows)).to_pylist()

    assert mask == [
        any(all(holds(row[name], how, literal) for name, how, literal in each) for each in where)
        for row in rows
    ]


@given(rows_lists, wheres)
def test_what_is_told_to_a_server_never_hides_a_row(rows, where):
    wanted, batch = Filter.of(spelled(where), SCHEMA), batch_of(rows)
    counted = [at for at, name in enumerate(TYPES) if name not in ("raw", "fixed", "list")]
    predicate = wanted.predicate(counted)
    if predicate is None or not any(wanted.mask(batch).to_pylist()):
        return

    sent = predicate_from_wire(predicate_to_wire(predicate, SCHEMA), SCHEMA)
    statistics = decode_statistics(encode_statistics(batch, SCHEMA, counted), SCHEMA)

    assert sent == predicate
    assert may_match(sent, statistics, record_count=len(rows))


def test_only_what_a_server_can_use_is_told_to_it():
    known = [0, 1]
    where = [("number", ">", 1), ("text", "contains", "a"), ("tiny", "<=", 2.5)]

    predicate = Filter.of(where, SCHEMA).predicate(known)
    either = Filter.of([[("number", ">", 1)], [("text", "==", "a")]], SCHEMA).predicate(known)
    both = Filter.of([[("number", ">", 1)], [("tiny", "==", 1)]], SCHEMA).predicate(known)

    more = Leaf(LeafFunction.GREATER_THAN, 1, (1,))
    assert predicate == And((more, Leaf(LeafFunction.LESS_OR_EQUAL, 0, (2,))))
    assert either is None
    assert both == Or((more, Leaf(LeafFunction.EQUAL, 0, (1,))))


@cases("literal", [0.0, -0.0, math.nan])
def test_numbers_that_java_orders_otherwise_are_kept_here(literal):
    wanted = Filter.of([("double", "==", literal)], SCHEMA)

    assert wanted.predicate(range(len(TYPES))) is None


def test_dates_and_times_may_be_given_as_text():
    where = [("day", "==", "2024-02-29"), ("clock", "<", "01:02:03.005")]
    row = dict.fromkeys(TYPES) | {"day": date(2024, 2, 29), "clock": time(1, 2, 3, 4000)}

    assert Filter.of(where, SCHEMA).mask(batch_of([row])).to_pylist() == [True]


@cases(
    ("where", "told"),
    [
        ([("nothing", "==", 1)], "not a column"),
        ([("number", "~", 1)], "unknown operator '~'"),
        ([("number", "==", "1")], "cannot be compared"),
        ([("number", "==", True)], "cannot be compared"),
        ([("money", "==", 0.1)], "Decimal"),
        ([("text", "==", 1)], "Use a str"),
        ([("flag", "<", True)], "cannot be used"),
        ([("flag", "==", 1)], "True or False"),
        ([("raw", "contains", b"a")], "cannot be used"),
        ([("list", "==", [1])], "cannot be used"),
        ([("local", "==", datetime(2024, 1, 1, tzinfo=UTC))], "without a time zone"),
        ([("instant", "==", datetime(2024, 1, 1))], "with a time zone"),
        ([("day", "==", datetime(2024, 1, 1))], "datetime.date"),
        ([("float", ">", 1e300)], "too large"),
        ([("number", "in", 1)], "not a list"),
        ([("text", "in", "ab")], "not a list"),
        ([("number", "is null", 1)], "is not a filter"),
        ([("number", ">")], "is not a filter"),
        ("number > 1", "is not a filter"),
        ([[1, 2]], "is not a filter"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(where, told):
    with pytest.raises(RequestError, match=told):
        Filter.of(where, SCHEMA)
