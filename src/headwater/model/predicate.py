"""Filters as plain values: comparisons of one column, combined with and / or."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum


class LeafFunction(IntEnum):
    """The comparisons, numbered as on the wire."""

    EQUAL = 0
    NOT_EQUAL = 1
    LESS_THAN = 2
    LESS_OR_EQUAL = 3
    GREATER_THAN = 4
    GREATER_OR_EQUAL = 5
    IS_NULL = 6
    IS_NOT_NULL = 7
    STARTS_WITH = 8
    CONTAINS = 9
    ENDS_WITH = 10
    IN = 11
    NOT_IN = 12


# Dates are days, times are milliseconds of the day, timestamps are nanoseconds since the epoch:
# integers compare exactly where datetime objects would round.
Literal = bool | int | float | str | bytes | Decimal | None


@dataclass(frozen=True, slots=True)
class Leaf:
    """Compare one column, identified by its id, with literals."""

    function: LeafFunction
    column_id: int
    literals: tuple[Literal, ...] = ()


@dataclass(frozen=True, slots=True)
class And:
    """True if all children are true."""

    children: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if any child is true."""

    children: tuple["Predicate", ...]


Predicate = Leaf | And | Or


def comparisons_of(predicate: Predicate) -> int:
    """Return how many comparisons a filter needs at most."""
    match predicate:
        case Leaf(literals=literals):
            return max(len(literals), 1)
        case And(children=children) | Or(children=children):
            return 1 + sum(map(comparisons_of, children))


def columns_of(predicate: Predicate) -> Iterator[int]:
    """Yield the ids of the columns that a filter uses."""
    match predicate:
        case Leaf(column_id=column_id):
            yield column_id
        case And(children=children) | Or(children=children):
            for child in children:
                yield from columns_of(child)
