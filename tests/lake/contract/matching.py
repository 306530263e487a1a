"""Filters applied to rows one by one, as the plainest reading of them has it."""

import math

import pyarrow as pa

from headwater.model.predicate import And, Leaf, LeafFunction, Or, Predicate
from headwater.model.schema import Schema

F = LeafFunction
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def literals_of(values: pa.ChunkedArray) -> list[object]:
    """Return values in the form that literals of filters have."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(values.type):
        factor = NANOS[values.type.unit]
        numbers = values.cast(pa.int64()).to_pylist()
        return [None if number is None else number * factor for number in numbers]
    return values.to_pylist()


def matches(predicate: Predicate, rows: pa.Table, schema: Schema, *, java: bool) -> list[bool]:
    """Tell of every row whether it passes, with floats in the order of Java or of Python."""
    names = {column.column_id: column.name for column in schema.columns}
    columns = {each: literals_of(rows[name]) for each, name in names.items()}
    return [
        _holds(predicate, {each: values[at] for each, values in columns.items()}, java=java)
        for at in range(rows.num_rows)
    ]


def _holds(predicate: Predicate, row: dict[int, object], *, java: bool) -> bool:
    match predicate:
        case And(children=children):
            return all(_holds(child, row, java=java) for child in children)
        case Or(children=children):
            return any(_holds(child, row, java=java) for child in children)
        case Leaf(function=F.IS_NULL, column_id=column):
            return row[column] is None
        case Leaf(function=F.IS_NOT_NULL, column_id=column):
            return row[column] is not None
        case Leaf(function=function, column_id=column, literals=literals):
            value = row[column]
            if value is None:
                return False
            if java:
                return _compared(function, _order(value), [_order(each) for each in literals])
            return _compared(function, value, list(literals))


def _order(value: object) -> object:
    """Return the key of Java's order: -0.0 before 0.0, NaN last."""
    if not isinstance(value, float):
        return value
    return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))


def _compared(function: LeafFunction, value: object, literals: list[object]) -> bool:
    first = literals[0]
    return {
        F.EQUAL: lambda: value == first,
        F.NOT_EQUAL: lambda: value != first,
        F.LESS_THAN: lambda: value < first,
        F.LESS_OR_EQUAL: lambda: value <= first,
        F.GREATER_THAN: lambda: value > first,
        F.GREATER_OR_EQUAL: lambda: value >= first,
        F.STARTS_WITH: lambda: value.startswith(first),
        F.ENDS_WITH: lambda: value.endswith(first),
        F.CONTAINS: lambda: first in value,
        F.IN: lambda: value in literals,
        F.NOT_IN: lambda: value not in literals,
    }[function]()
