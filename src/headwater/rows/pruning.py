"""Telling from its statistics that no row of a batch can match a filter."""

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeAlias

from headwater.model.predicate import And, Leaf, LeafFunction, Literal, Or, Predicate
from headwater.rows.statistics import BatchStatistics, ColumnStatistics

# A bound of None is unknown: values may lie anywhere on that side.
_Check: TypeAlias = Callable[[Literal, Literal, Literal], bool]

_NONE_ABSENT: frozenset[int] = frozenset()


def may_match(
    predicate: Predicate,
    statistics: BatchStatistics,
    *,
    record_count: int,
    absent: frozenset[int] = _NONE_ABSENT,
) -> bool:
    """Return False only if no row matches; columns in `absent` are null in every row."""
    match predicate:
        case And(children=children):
            return all(
                may_match(child, statistics, record_count=record_count, absent=absent)
                for child in children
            )
        case Or(children=children):
            return any(
                may_match(child, statistics, record_count=record_count, absent=absent)
                for child in children
            )
        case Leaf(column_id=column_id):
            column = statistics.columns.get(column_id)
            if column_id in absent:
                column = ColumnStatistics(null_count=record_count)
            return column is None or _leaf_may_match(predicate, column, record_count=record_count)


def _leaf_may_match(leaf: Leaf, column: ColumnStatistics, *, record_count: int) -> bool:
    if leaf.function == LeafFunction.IS_NULL:
        return column.null_count > 0
    # Every other comparison is false for a null.
    if column.null_count >= record_count:
        return False
    if leaf.function not in _CHECKS or not all(map(_is_comparable, leaf.literals)):
        return True
    low, high = _number_bounds(column)
    check = _CHECKS[leaf.function]
    outcomes = (check(low, high, literal) for literal in leaf.literals)
    try:
        # Not being in a list means to differ from each of its items.
        return all(outcomes) if leaf.function == LeafFunction.NOT_IN else any(outcomes)
    except TypeError:
        # A literal of another type says nothing of the order.
        return True


def _number_bounds(column: ColumnStatistics) -> tuple[Literal, Literal]:
    # NaN sorts last: a minimum of NaN leaves no numbers, a maximum of NaN hides the largest.
    if _is_nan(column.minimum):
        return None, None
    return column.minimum, None if _is_nan(column.maximum) else column.maximum


def _is_comparable(literal: Literal) -> bool:
    return literal is not None and not _is_nan(literal)


def _is_nan(literal: Literal) -> bool:
    match literal:
        case float():
            return math.isnan(literal)
        case Decimal():
            return literal.is_nan()
        case _:
            return False


def _is_float_zero(literal: Literal) -> bool:
    return isinstance(literal, float) and literal == 0


def _at_most(left: Literal, right: Literal) -> bool:
    return left is None or right is None or bool(operator.le(left, right))


def _below(left: Literal, right: Literal) -> bool:
    # Java holds -0.0 to be less than 0.0, Python holds them to be equal: allow both.
    if _is_float_zero(left) or _is_float_zero(right):
        return _at_most(left, right)
    return left is None or right is None or bool(operator.lt(left, right))


def _may_equal(low: Literal, high: Literal, literal: Literal) -> bool:
    return _at_most(low, literal) and _at_most(literal, high)


def _may_differ(low: Literal, high: Literal, literal: Literal) -> bool:
    return not low == high == literal or _is_float_zero(low)


def _may_be_less(low: Literal, _: Literal, literal: Literal) -> bool:
    return _below(low, literal)


def _may_be_at_most(low: Literal, _: Literal, literal: Literal) -> bool:
    return _at_most(low, literal)


def _may_be_greater(_: Literal, high: Literal, literal: Literal) -> bool:
    return _below(literal, high)


def _may_be_at_least(_: Literal, high: Literal, literal: Literal) -> bool:
    return _at_most(literal, high)


def _may_start_with(low: Literal, high: Literal, literal: Literal) -> bool:
    if not isinstance(literal, str) or not isinstance(low, str):
        return True
    return low[: len(literal)] <= literal and _at_most(literal, high)


_CHECKS: Mapping[LeafFunction, _Check] = {
    LeafFunction.EQUAL: _may_equal,
    LeafFunction.NOT_EQUAL: _may_differ,
    LeafFunction.LESS_THAN: _may_be_less,
    LeafFunction.LESS_OR_EQUAL: _may_be_at_most,
    LeafFunction.GREATER_THAN: _may_be_greater,
    LeafFunction.GREATER_OR_EQUAL: _may_be_at_least,
    LeafFunction.STARTS_WITH: _may_start_with,
    LeafFunction.IN: _may_equal,
    LeafFunction.NOT_IN: _may_differ,
}
