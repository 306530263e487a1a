"""Filters and bounds in the words of people, for plans that explain themselves."""

from collections.abc import Collection

import numpy as np

from headwater.client.reading.comparisons import LISTS, NULL_CHECKS, Comparison
from headwater.client.reading.filters import OPERATORS, Filter
from headwater.client.reading.literals import literal_of
from headwater.lake.split import ColumnBounds
from headwater.model.predicate import Literal
from headwater.model.schema import Column
from headwater.model.types import DataType, DateType, TimestampLtzType, TimestampType, TimeType

VALUES_SHOWN_MAX = 5
TEXT_SHOWN_MAX = 40
_SPELLED = {function: spelled for spelled, function in OPERATORS.items()}


def filter_text(wanted: Filter, *, only: Collection[str] | None = None) -> str:
    """Return a filter, or what it says of some columns, as a person would write it."""
    branches = [
        " and ".join(
            _test_text(test) for test in branch if only is None or test.column.name in only
        )
        for branch in wanted.branches
    ]
    told = list(dict.fromkeys(filter(None, branches)))
    return " or ".join(f"({each})" for each in told) if len(told) > 1 else "".join(told)


def bounds_text(column: Column, bounds: ColumnBounds) -> str:
    """Return between which values a column lies."""
    if bounds.lower is None and bounds.upper is None:
        return f"{column.name} is null"
    low, high = (
        "…" if each is None else literal_text(each, column.type)
        for each in (bounds.lower, bounds.upper)
    )
    return f"{column.name} in [{low}, {high}]"


def literal_text(literal: Literal, kind: DataType) -> str:
    """Return a literal as a person would write it."""
    match literal, kind:
        case int(days), DateType():
            return str(np.datetime64(days, "D"))
        case int(millis), TimeType():
            return str(np.datetime64(millis, "ms")).partition("T")[2]
        case int(nanos), TimestampType() | TimestampLtzType():
            return _moment_text(nanos)
        case str(text), _:
            return repr(text if len(text) <= TEXT_SHOWN_MAX else f"{text[:TEXT_SHOWN_MAX]}…")
        case bytes(data), _:
            return f"x'{data[:TEXT_SHOWN_MAX].hex()}'"
        case _:
            return str(literal)


def _moment_text(nanos: int) -> str:
    try:
        text = str(np.datetime64(nanos, "ns"))
    except OverflowError:
        return f"{nanos} ns"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _test_text(test: Comparison) -> str:
    name, spelled = test.column.name, _SPELLED[test.function]
    if test.function in NULL_CHECKS:
        return f"{name} {spelled}"
    texts = [
        literal_text(literal_of(value, test.column.type), test.column.type)
        for value in test.values[:VALUES_SHOWN_MAX]
    ]
    if len(test.values) > VALUES_SHOWN_MAX:
        texts.append(f"… {len(test.values)} values")
    listed = ", ".join(texts)
    return (
        f"{name} {spelled} ({listed})" if test.function in LISTS else f"{name} {spelled} {listed}"
    )
