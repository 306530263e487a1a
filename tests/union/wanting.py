"""Filters as a strategy draws them, and what they leave of rows, one row after the other."""

import operator
from collections import Counter
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

Term = tuple[str, str] | tuple[str, str, object]

_TESTS: dict[str, Callable[[object, object], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, wanted: value in wanted,
    "not in": lambda value, wanted: value not in wanted,
    "starts with": lambda value, wanted: value.startswith(wanted),
    "contains": lambda value, wanted: wanted in value,
}
_ORDERED = ("==", "!=", "<", "<=", ">", ">=")
_LISTS = ("in", "not in")


def passes(row: Sequence[tuple[str, object]], where: Sequence[Term]) -> bool:
    """Tell whether a row passes all tests; null passes none but the one for null."""
    values = dict(row)
    return all(_holds(values[term[0]], *term[1:]) for term in where)


def _holds(value: object, test: str, wanted: object = None) -> bool:
    if test == "is null":
        return value is None
    if test == "is not null":
        return value is not None
    return value is not None and _TESTS[test](value, wanted)


def left(rows: Counter, where: Sequence[Term], columns: Sequence[str] | None = None) -> Counter:
    """Return the rows that pass, in the wanted columns."""
    found: Counter = Counter()
    for row, count in rows.items():
        if passes(row, where):
            values = dict(row)
            names = list(values) if columns is None else columns
            found[tuple((name, values[name]) for name in names)] += count
    return found


numbers = st.integers(-2, 14)
words = st.sampled_from(("", "a", "b", "ab", "ba", "z"))


def terms(number_columns: Sequence[str], text_columns: Sequence[str]) -> st.SearchStrategy[Term]:
    """Draw a test of one of the columns."""
    number, text = st.sampled_from(number_columns), st.sampled_from(text_columns)
    return st.one_of(
        st.tuples(number, st.sampled_from(_ORDERED), numbers),
        st.tuples(number, st.sampled_from(_LISTS), st.lists(numbers, min_size=1, max_size=3)),
        st.tuples(text, st.sampled_from((*_ORDERED, "starts with", "contains")), words),
        st.tuples(text, st.sampled_from(_LISTS), st.lists(words, min_size=1, max_size=3)),
        st.tuples(number | text, st.sampled_from(("is null", "is not null"))),
    )
