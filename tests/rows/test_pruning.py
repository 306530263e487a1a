import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.arrow import arrow_schema
from headwater.model.predicate import And, Leaf, LeafFunction, Or
from headwater.model.types import (
    BigIntType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    StringType,
    TimestampType,
    TimeType,
)
from headwater.rows.statistics import (
    BatchStatistics,
    ColumnStatistics,
    decode_statistics,
    encode_statistics,
    may_match,
)
from tests.cases import cases
from tests.choices import examples
from tests.rows.strategies import schema_of

F = LeafFunction
FLOATS = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
TEXTS = ["", "a", "ab", "b", "ba", "é", "\uffff", "\U0001f600", "a long text"]
# Per type: values as Arrow takes them, literals, and what turns a value into a literal.
DOMAINS = {
    BooleanType(): ([False, True], [False, True], bool),
    BigIntType(): (range(-2, 4), range(-3, 5), int),
    DoubleType(): (FLOATS, FLOATS, float),
    StringType(): (TEXTS, TEXTS, str),
    DecimalType(precision=20): (
        list(map(Decimal, range(3))),
        list(map(Decimal, range(4))),
        Decimal,
    ),
    DateType(): (range(3), range(-1, 4), int),
    TimeType(precision=6): (range(900, 2200, 50), range(4), lambda us: Fraction(us, 1000)),
    TimestampType(precision=6): (range(4), range(-1000, 5000, 500), lambda us: us * 1000),
}
KINDS = list(DOMAINS)
SCHEMA = schema_of(KINDS)


def order(value):
    """Return the key of Java's order: -0.0 before 0.0, NaN last."""
    if not isinstance(value, float):
        return (0, value, 0)
    return (1, 0, 0) if math.isnan(value) else (0, value, math.copysign(1, value))


def holds(function, value, literals):
    """Tell whether a value matches, by the order of Python or that of Java."""
    return value is not None and (
        compare(function, value, literals)
        or compare(function, order(value), [order(literal) for literal in literals])
    )


def compare(function, value, literals):
    first = literals[0]
    match function:
        case F.EQUAL | F.IN:
            return value in literals
        case F.NOT_EQUAL | F.NOT_IN:
            return value not in literals
        case F.LESS_THAN:
            return value < first
        case F.LESS_OR_EQUAL:
            return value <= first
        case F.GREATER_THAN:
            return value > first
        case F.GREATER_OR_EQUAL:
            return value >= first
        case _:
            return compare_text(function, value, first)


def compare_text(function, value, literal):
    if not isinstance(value, str):
        return False
    match function:
        case F.STARTS_WITH:
            return value.startswith(literal)
        case F.ENDS_WITH:
            return value.endswith(literal)
        case _:
            return literal in value


def matches(predicate, row):
    match predicate:
        case And(children):
            return all(matches(child, row) for child in children)
        case Or(children):
            return any(matches(child, row) for child in children)
        case Leaf(F.IS_NULL, column_id):
            return row[column_id] is None
        case Leaf(F.IS_NOT_NULL, column_id):
            return row[column_id] is not None
        case Leaf(function, column_id, literals):
            return holds(function, row[column_id], literals)


@st.composite
def leaves(draw):
    column_id = draw(st.integers(0, len(KINDS) - 1))
    function = draw(st.sampled_from(F))
    if function in (F.IS_NULL, F.IS_NOT_NULL):
        return Leaf(function, column_id)
    literals = st.sampled_from(DOMAINS[KINDS[column_id]][1])
    count = draw(st.integers(1, 3)) if function in (F.IN, F.NOT_IN) else 1
    return Leaf(function, column_id, tuple(draw(literals) for _ in range(count)))


def predicates():
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.builds(And, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
        ),
        max_leaves=5,
    )


@st.composite
def columns(draw):
    count = draw(st.integers(1, 4))
    return [
        [draw(st.none() | st.sampled_from(DOMAINS[kind][0])) for _ in range(count)]
        for kind in KINDS
    ]


def statistics_of(values):
    kinds = arrow_schema(SCHEMA)
    arrays = [pa.array(column, kind) for column, kind in zip(values, kinds.types, strict=True)]
    rows = pa.record_batch(arrays, schema=kinds)
    return decode_statistics(encode_statistics(rows, SCHEMA, range(len(KINDS))), SCHEMA)


@settings(max_examples=examples(500))
@given(values=columns(), predicate=predicates())
def test_a_batch_with_a_matching_row_is_never_pruned(values, predicate):
    literals = [
        [None if value is None else DOMAINS[kind][2](value) for value in column]
        for kind, column in zip(KINDS, values, strict=True)
    ]
    rows = list(zip(*literals, strict=True))

    kept = may_match(predicate, statistics_of(values), record_count=len(rows))

    assert kept or not any(matches(predicate, row) for row in rows)


def kept(leaf, *, low, high, null_count=0):
    statistics = BatchStatistics({0: ColumnStatistics(null_count, low, high)})
    return may_match(leaf, statistics, record_count=10)


@cases(
    ("function", "pruned", "kept_literal"),
    [
        (F.EQUAL, 9, 7),
        (F.LESS_THAN, 5, 6),
        (F.LESS_OR_EQUAL, 4, 5),
        (F.GREATER_THAN, 8, 7),
        (F.GREATER_OR_EQUAL, 9, 8),
        (F.IN, 4, 5),
    ],
)
def test_a_comparison_outside_the_bounds_prunes(function, pruned, kept_literal):
    assert not kept(Leaf(function, 0, (pruned,)), low=5, high=8)
    assert kept(Leaf(function, 0, (kept_literal,)), low=5, high=8)


@cases("function", [F.NOT_EQUAL, F.NOT_IN])
def test_a_batch_of_one_value_is_pruned_when_that_value_is_excluded(function):
    assert not kept(Leaf(function, 0, (5,)), low=5, high=5)
    assert kept(Leaf(function, 0, (5,)), low=5, high=6)


@cases(
    ("prefix", "expected"), [("b", True), ("ap", True), ("d", False), ("a", True), ("aa", False)]
)
def test_a_prefix_outside_the_bounds_prunes(prefix, expected):
    assert kept(Leaf(F.STARTS_WITH, 0, (prefix,)), low="apple", high="cherry") is expected


def test_null_counts_answer_tests_for_null():
    assert not kept(Leaf(F.IS_NULL, 0), low=1, high=2)
    assert not kept(Leaf(F.IS_NOT_NULL, 0), low=None, high=None, null_count=10)
    assert kept(Leaf(F.IS_NULL, 0), low=1, high=2, null_count=1)


@cases("literal", [None, math.nan, "text", Decimal("NaN")])
def test_a_literal_without_order_keeps_the_batch(literal):
    assert kept(Leaf(F.EQUAL, 0, (literal,)), low=5, high=8)


def test_unknown_bounds_keep_the_batch():
    assert kept(Leaf(F.EQUAL, 0, (5,)), low=None, high=None)


@cases("function", F)
def test_a_column_without_statistics_keeps_the_batch(function):
    assert may_match(Leaf(function, 7, (1,)), BatchStatistics(), record_count=10)


@cases("function", F)
def test_a_column_absent_from_the_batch_is_null_in_every_row(function):
    leaf = Leaf(function, 7, (1,))

    found = may_match(leaf, BatchStatistics(), record_count=10, absent=frozenset({7}))

    assert found is (function == F.IS_NULL)
