"""Conditions of Spark as filters: exactly the same rows, or none of our business."""

import math
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster.schema_in import schema_of
from headwater.engines.spark.catalog.filters import (
    BRANCHES_MAX,
    Call,
    Expression,
    Literal,
    Reference,
    both,
    branches_of_predicate,
    either,
)
from headwater.read.filters import Filter

SCHEMA = schema_of({"a": "INT", "s": "STRING", "f": "DOUBLE", "r": "ROW<x INT>"})
ROWS = pa.record_batch(
    {
        "a": pa.array([1, 2, 3, None, -1, 2], pa.int32()),
        "s": ["a", "ab", None, "b", "", "ab"],
        "f": [0.0, -0.0, math.nan, 2.0, None, math.inf],
    }
)
A, S, F = Reference(("a",)), Reference(("s",)), Reference(("f",))


def wanted(condition: Expression) -> list[bool] | None:
    branches = branches_of_predicate(condition, SCHEMA)
    return None if branches is None else Filter.of(branches, SCHEMA).mask(ROWS).to_pylist()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Call("=", (A, Literal(2))), [0, 1, 0, 0, 0, 1]),
        (Call("<", (Literal(1), A)), [0, 1, 1, 0, 0, 1]),
        (Call("IN", (A, Literal(1), Literal(None))), [1, 0, 0, 0, 0, 0]),
        (Call("NOT", (Call("IN", (A, Literal(1), Literal(None))),)), [0, 0, 0, 0, 0, 0]),
        (Call("NOT", (Call("IN", (A, Literal(1))),)), [0, 1, 1, 0, 1, 1]),
        (Call("<=>", (A, Literal(None))), [0, 0, 0, 1, 0, 0]),
        (Call("NOT", (Call("<=>", (A, Literal(2))),)), [1, 0, 1, 1, 1, 0]),
        (Call("STARTS_WITH", (S, Literal("a"))), [1, 1, 0, 0, 0, 1]),
        (Call("ENDS_WITH", (S, Literal("b"))), [0, 1, 0, 1, 0, 1]),
        (Call("CONTAINS", (S, Literal(""))), [1, 1, 0, 1, 1, 1]),
        (Call("NOT", (Call("IS_NULL", (A,)),)), [1, 1, 1, 0, 1, 1]),
        (Call("IS_NOT_NULL", (S,)), [1, 1, 0, 1, 1, 1]),
        (Call("=", (F, Literal(0.0))), [1, 1, 0, 0, 0, 0]),
        (Call("<=", (F, Literal(2.0))), [1, 1, 0, 1, 0, 0]),
    ],
)
def test_a_condition_wants_the_rows_that_spark_wants(condition, expected):
    assert wanted(condition) == [bool(each) for each in expected]


@pytest.mark.parametrize(
    "condition",
    [
        # NaN is above all numbers in Spark.
        Call(">", (F, Literal(1.0))),
        Call("NOT", (Call("<", (F, Literal(1.0))),)),
        Call("IN", (F, Literal(1.0))),
        Call("=", (F, Literal(math.nan))),
        Call("NOT", (Call("STARTS_WITH", (S, Literal("a"))),)),
        Call("=", (Reference(("r", "x")), Literal(1))),
        Call("=", (Reference(("nothing",)), Literal(1))),
        Call("IS_NULL", (Reference(("r", "x")),)),
        Call("=", (A, Literal(None))),
        Call("=", (A, S)),
        Call("BIT_COUNT", (A,)),
        Call("ALWAYS_TRUE", ()),
        Call("OR", (Call("=", (A, Literal(1))), Call(">", (F, Literal(1.0))))),
    ],
)
def test_a_condition_that_would_want_other_rows_is_left_to_spark(condition):
    assert wanted(condition) is None


def test_a_condition_of_too_many_alternatives_is_left_to_spark():
    one = ((("a", "==", 1),),)
    many = one * BRANCHES_MAX

    assert both(many, many) is None
    assert either(many, one) is None


Truth = bool | None


def _not(value: Truth) -> Truth:
    return None if value is None else not value


def _and(left: Truth, right: Truth) -> Truth:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _compared(row: int | None, literal: int | None, name: str) -> Truth:
    if name == "<=>":
        return row == literal
    if row is None or literal is None:
        return None
    compare: dict[str, Callable[[int, int], bool]] = {
        "=": int.__eq__,
        "<": int.__lt__,
        ">=": int.__ge__,
    }
    return compare[name](row, literal)


def truth(condition: Expression, row: int | None) -> Truth:
    """Say what SQL makes of a condition upon the column `a`."""
    match condition:
        case Call("NOT", (inner,)):
            return _not(truth(inner, row))
        case Call("AND", (left, right)):
            return _and(truth(left, row), truth(right, row))
        case Call("OR", (left, right)):
            return _not(_and(_not(truth(left, row)), _not(truth(right, row))))
        case Call("IS_NULL", _):
            return row is None
        case Call("IN", (_, *values)):
            found = False
            for value in values:
                same = _compared(row, value.value, "=")
                found = _not(_and(_not(found), _not(same)))
            return found
        case Call(name, (_, Literal(value))):
            return _compared(row, value, name)
    raise AssertionError(condition)


NUMBERS = st.integers(-2, 3)
LEAVES = st.one_of(
    st.builds(
        lambda name, value: Call(name, (A, Literal(value))),
        st.sampled_from(["=", "<", ">=", "<=>"]),
        NUMBERS,
    ),
    st.builds(
        lambda values: Call("IN", (A, *map(Literal, values))),
        st.lists(st.none() | NUMBERS, min_size=1, max_size=3),
    ),
    st.just(Call("IS_NULL", (A,))),
    st.just(Call("<=>", (A, Literal(None)))),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda one: Call("NOT", (one,)), inner),
        st.builds(
            lambda name, left, right: Call(name, (left, right)),
            st.sampled_from(["AND", "OR"]),
            inner,
            inner,
        ),
    ),
    max_leaves=6,
)


@given(CONDITIONS)
def test_any_condition_wants_the_rows_of_which_sql_says_that_it_is_true(condition):
    found = wanted(condition)

    if found is not None:
        assert found == [truth(condition, row) is True for row in ROWS["a"].to_pylist()]
