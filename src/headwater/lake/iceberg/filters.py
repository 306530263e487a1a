"""Filters as Iceberg has them, as far as they leave out files without losing a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

import numpy as np
from pyiceberg import expressions as ice
from pyiceberg.expressions import literals

from headwater.model.predicate import And, Leaf, LeafFunction, Literal, Or, Predicate
from headwater.model.types import (
    NESTED_TYPES,
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_MICROS_PER_MILLI = 1_000
_NANOS_PER_MICRO = 1_000
_MILLIS_PRECISION_MAX = 3

_WHOLE = (TinyIntType, SmallIntType, IntType, BigIntType, DateType)
_FLOATS = (FloatType, DoubleType)
_EQUALITY = (LeafFunction.EQUAL, LeafFunction.IN)
_BELOW = (LeafFunction.LESS_THAN, LeafFunction.LESS_OR_EQUAL)
_Value = (
    literals.BooleanLiteral
    | literals.LongLiteral
    | literals.DoubleLiteral
    | literals.DecimalLiteral
    | literals.StringLiteral
    | literals.BinaryLiteral
)
_COMPARISONS: Mapping[LeafFunction, type[ice.BooleanExpression]] = {
    LeafFunction.EQUAL: ice.EqualTo,
    LeafFunction.LESS_THAN: ice.LessThan,
    LeafFunction.LESS_OR_EQUAL: ice.LessThanOrEqual,
    LeafFunction.GREATER_THAN: ice.GreaterThan,
    LeafFunction.GREATER_OR_EQUAL: ice.GreaterThanOrEqual,
}


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """Name a column as the Iceberg table does."""

    name: str
    type: DataType


def iceberg_filter(
    predicate: Predicate, columns: Mapping[int, NamedColumn]
) -> ice.BooleanExpression | None:
    """Return a filter that every row passes which passes this one; None if there is none."""
    match predicate:
        case And(children=children):
            found = [iceberg_filter(child, columns) for child in children]
            parts = [part for part in found if part is not None]
            return all_of(parts) if parts else None
        case Or(children=children):
            found = [iceberg_filter(child, columns) for child in children]
            parts = [part for part in found if part is not None]
            return _any_of(parts) if parts and len(parts) == len(found) else None
        case Leaf(column_id=column_id):
            column = columns.get(column_id)
            return None if column is None else _leaf(predicate, column)


def all_of(parts: list[ice.BooleanExpression]) -> ice.BooleanExpression:
    """Return what holds when all parts hold."""
    joined: ice.BooleanExpression = ice.AlwaysTrue()
    for part in parts:
        joined = ice.And(joined, part)
    return joined


def _any_of(parts: list[ice.BooleanExpression]) -> ice.BooleanExpression:
    joined: ice.BooleanExpression = ice.AlwaysFalse()
    for part in parts:
        joined = ice.Or(joined, part)
    return joined


def _leaf(leaf: Leaf, column: NamedColumn) -> ice.BooleanExpression | None:
    if isinstance(column.type, NESTED_TYPES):
        return None
    match leaf.function:
        case LeafFunction.IS_NULL:
            return _made(ice.IsNull, column.name)
        case LeafFunction.IS_NOT_NULL:
            return _made(ice.NotNull, column.name)
        case LeafFunction.STARTS_WITH:
            return _starts_with(leaf, column)
        case _:
            return _compared(leaf, column)


def _starts_with(leaf: Leaf, column: NamedColumn) -> ice.BooleanExpression | None:
    match leaf.literals:
        case (str(text),) if text and isinstance(column.type, StringType | CharType):
            return _made(ice.StartsWith, column.name, literals.StringLiteral(text))
        case _:
            return None


def _compared(leaf: Leaf, column: NamedColumn) -> ice.BooleanExpression | None:
    if not _is_comparable(leaf.function, column.type):
        return None
    found = [_literal(each, column.type) for each in leaf.literals]
    values = [each for each in found if each is not None]
    if not values or len(values) != len(found):
        return None
    if leaf.function is LeafFunction.IN:
        return _any_of([_made(ice.EqualTo, column.name, value) for value in values])
    compare = _COMPARISONS.get(leaf.function)
    return None if compare is None else _made(compare, column.name, values[0])


def _made(kind: type[ice.BooleanExpression], name: str, *values: _Value) -> ice.BooleanExpression:
    """Make an expression; the types of pyiceberg name its fields, not what it takes."""
    return cast("Callable[..., ice.BooleanExpression]", kind)(name, *values)


def _is_comparable(function: LeafFunction, data_type: DataType) -> bool:
    if isinstance(data_type, BooleanType):
        return function in _EQUALITY
    # NaN is in no bounds, and above everything for some who read.
    return not isinstance(data_type, _FLOATS) or function in (*_EQUALITY, *_BELOW)


def _literal(value: Literal, data_type: DataType) -> _Value | None:
    """Return a value as Iceberg compares it; None if that would not be exact."""
    match value, data_type:
        case (bool(), BooleanType()):
            return literals.BooleanLiteral(value)
        case (bool(), _) | (None, _):
            return None
        case (str(), StringType() | CharType()):
            return literals.StringLiteral(value)
        case (bytes(), BytesType()):
            return literals.BinaryLiteral(value)
        case (bytes(), BinaryType(length=length)) if len(value) == length:
            return literals.BinaryLiteral(value)
        case (int() | float() | Decimal(), _):
            return _number(value, data_type)
        case _:
            return None


def _number(value: float | Decimal, data_type: DataType) -> _Value | None:
    match data_type:
        case DoubleType() | FloatType():
            return _float(float(value), value, data_type)
        case DecimalType(precision=precision, scale=scale):
            return _decimal(Decimal(value), precision, scale)
        case TimeType(precision=precision) if precision <= _MILLIS_PRECISION_MAX:
            return _long(value * _MICROS_PER_MILLI)
        case TimestampType() | TimestampLtzType():
            return None if value % _NANOS_PER_MICRO else _long(value // _NANOS_PER_MICRO)
        case _ if isinstance(data_type, _WHOLE):
            return _long(value)
        case _:
            return None


def _long(value: float | Decimal) -> _Value | None:
    is_whole = isinstance(value, int) and _LONG_MIN <= value <= _LONG_MAX
    return literals.LongLiteral(int(value)) if is_whole else None


def _float(number: float, value: float | Decimal, data_type: DataType) -> _Value | None:
    is_exact = number == value and (
        isinstance(data_type, DoubleType) or float(np.float32(number)) == number
    )
    return literals.DoubleLiteral(number) if is_exact else None


def _decimal(value: Decimal, precision: int, scale: int) -> _Value | None:
    if not value.is_finite():
        return None
    sign, digits, exponent = value.as_tuple()
    shift = int(exponent) + scale
    if shift < 0 or len(digits) + shift > precision:
        return None
    return literals.DecimalLiteral(Decimal((sign, (*digits, *([0] * shift)), -scale)))
