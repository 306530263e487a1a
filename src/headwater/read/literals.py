"""Literals of a filter as values of a column, and the column compared with them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction

import numpy as np
import pyarrow as pa

from headwater.errors import RequestError
from headwater.model import Column, types
from headwater.model.arrow import arrow_type, time_unit
from headwater.model.predicate import Leaf, LeafFunction, Literal
from headwater.rows.compute import pc

# Literals of a filter, as values of the column that they are compared with.

Value = bool | int | float | str | bytes | Decimal | date | time | datetime | None
"""What a filter may compare with."""

Native = bool | int | float | str | bytes
"""A value in the units of its column: whole numbers for all but floats, texts and bytes."""

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NANOS = 1_000_000_000
# More digits than any decimal has, as the usual context would round.
_WIDE = Context(prec=100)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT_BITS: dict[type[types.DataType], int] = {
    types.TinyIntType: 8,
    types.SmallIntType: 16,
    types.IntType: 32,
    types.BigIntType: 64,
    types.DateType: 32,
    types.TimestampType: 64,
    types.TimestampLtzType: 64,
}


@dataclass(frozen=True, slots=True)
class Bound:
    """Hold a literal as its column can hold it, rounded down where it lies between two values."""

    value: Native
    is_exact: bool = True


def bound_of(literal: Value, column: Column) -> Bound:
    """Return a literal in the units of its column, or say that they cannot be compared."""
    match column.type:
        case types.StringType() | types.CharType() if isinstance(literal, str):
            return Bound(literal)
        case types.BytesType() | types.BinaryType() if isinstance(
            literal, bytes | bytearray | memoryview
        ):
            return Bound(bytes(literal))
        case types.BooleanType() if isinstance(literal, bool):
            return Bound(literal)
        case types.DoubleType() if isinstance(literal, int | float) and not isinstance(
            literal, bool
        ):
            return Bound(float(literal))
        case types.FloatType() if isinstance(literal, int | float) and not isinstance(
            literal, bool
        ):
            return Bound(_single(float(literal), column))
    exact_of = _EXACT.get(type(column.type))
    exact = None if exact_of is None else exact_of(literal, column)
    if exact is None:
        raise _incomparable(literal, column)
    low, high = _limits(column.type)
    if exact > high:
        return Bound(high, is_exact=False)
    return Bound(max(math.floor(exact), low - 1), is_exact=exact.denominator == 1 and exact >= low)


def scalar_of(value: Native, data_type: types.DataType) -> pa.Scalar:
    """Return a value in the units of its column as an Arrow scalar."""
    arrow = arrow_type(data_type)
    match data_type:
        case types.DecimalType(scale=scale):
            return pa.scalar(_decimal(int(value), scale), arrow)
        case types.DateType() | types.TimeType() | types.TimestampType() | types.TimestampLtzType():
            whole = pa.int32() if arrow.bit_width == 32 else pa.int64()  # noqa: PLR2004
            return pa.array([value], whole).view(arrow)[0]
        case types.BinaryType():
            return pa.scalar(value, pa.binary())
        case _:
            return pa.scalar(value, arrow)


def literal_of(value: Native, data_type: types.DataType) -> Literal:
    """Return a value in the units of its column in the units of the wire."""
    match data_type:
        case types.DecimalType(scale=scale):
            return _decimal(int(value), scale)
        case types.TimeType(precision=precision):
            return int(value) * _PER_SECOND["ms"] // _PER_SECOND[time_unit(precision)]
        case types.TimestampType(precision=precision) | types.TimestampLtzType(precision=precision):
            return int(value) * (_NANOS // _PER_SECOND[time_unit(precision)])
        case _:
            return value


def native_of(literal: Literal, data_type: types.DataType) -> Native:
    """Return a value in the units of the wire in those of its column."""
    match data_type, literal:
        case types.DecimalType(scale=scale), Decimal():
            return int(literal.scaleb(scale, _WIDE))
        case types.TimeType(precision=precision), int():
            return literal * _PER_SECOND[time_unit(precision)] // _PER_SECOND["ms"]
        case types.TimestampType(precision=precision) | types.TimestampLtzType(
            precision=precision
        ), int():
            return literal // (_NANOS // _PER_SECOND[time_unit(precision)])
        case _, None | Decimal():
            raise RequestError(f"{literal!r} is not a value of type {data_type}.")
        case _:
            return literal


def _single(value: float, column: Column) -> float:
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value))
    if math.isinf(rounded) and not math.isinf(value):
        raise RequestError(f"{value} is too large for '{column.name}' of type {column.type}.")
    return rounded


def _whole(literal: Value, _: Column) -> Fraction | None:
    if isinstance(literal, bool) or not isinstance(literal, int | float | Decimal):
        return None
    return Fraction(literal) if math.isfinite(literal) else None


def _scaled(literal: Value, column: Column) -> Fraction | None:
    if isinstance(literal, str):
        literal = _parsed(Decimal, literal)
    # The nearest float to 0.1 is not 0.1, so floats would hardly ever be equal to anything.
    if isinstance(literal, float) or (exact := _whole(literal, column)) is None:
        return None
    assert isinstance(column.type, types.DecimalType)
    return exact * 10**column.type.scale


def _days(literal: Value, _: Column) -> Fraction | None:
    if isinstance(literal, str):
        literal = _parsed(date.fromisoformat, literal)
    if not isinstance(literal, date) or isinstance(literal, datetime):
        return None
    return Fraction(literal.toordinal() - _EPOCH.toordinal())


def _of_day(literal: Value, column: Column) -> Fraction | None:
    if isinstance(literal, str):
        literal = _parsed(time.fromisoformat, literal)
    if not isinstance(literal, time) or literal.tzinfo is not None:
        return None
    assert isinstance(column.type, types.TimeType)
    seconds = (literal.hour * 60 + literal.minute) * 60 + literal.second
    micros = Fraction(literal.microsecond, _PER_SECOND["us"])
    return (seconds + micros) * _PER_SECOND[time_unit(column.type.precision)]


def _instant(literal: Value, column: Column) -> Fraction | None:
    if isinstance(literal, str):
        literal = _parsed(datetime.fromisoformat, literal)
    is_local = isinstance(column.type, types.TimestampType)
    if not isinstance(literal, datetime) or (literal.tzinfo is None) != is_local:
        return None
    assert isinstance(column.type, types.TimestampType | types.TimestampLtzType)
    since = (literal.replace(tzinfo=UTC) if is_local else literal) - _EPOCH
    per_second = _PER_SECOND[time_unit(column.type.precision)]
    return Fraction(since // _MICROSECOND * per_second, _PER_SECOND["us"])


def _parsed(parse: Callable[[str], Value], text: str) -> Value:
    try:
        return parse(text)
    except (ValueError, InvalidOperation):
        return None


_EXACT: dict[type[types.DataType], Callable[[Value, Column], Fraction | None]] = {
    types.TinyIntType: _whole,
    types.SmallIntType: _whole,
    types.IntType: _whole,
    types.BigIntType: _whole,
    types.DecimalType: _scaled,
    types.DateType: _days,
    types.TimeType: _of_day,
    types.TimestampType: _instant,
    types.TimestampLtzType: _instant,
}


def _limits(data_type: types.DataType) -> tuple[int, int]:
    match data_type:
        case types.DecimalType(precision=precision):
            return 1 - 10**precision, 10**precision - 1
        case types.TimeType(precision=precision):
            return 0, 24 * 60 * 60 * _PER_SECOND[time_unit(precision)] - 1
        case _:
            half = 1 << _INT_BITS[type(data_type)] - 1
            return -half, half - 1


def _decimal(unscaled: int, scale: int) -> Decimal:
    # Built from digits because arithmetic would round to the context's precision.
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _incomparable(literal: Value, column: Column) -> RequestError:
    expected = _EXPECTED.get(type(column.type), "only 'is null' and 'is not null' here")
    return RequestError(
        f"'{column.name}' of type {column.type} cannot be compared with {literal!r}.",
        hint=f"Use {expected}.",
    )


_EXPECTED: dict[type[types.DataType], str] = {
    types.StringType: "a str",
    types.CharType: "a str",
    types.BytesType: "bytes",
    types.BinaryType: "bytes",
    types.BooleanType: "True or False",
    types.FloatType: "a number",
    types.DoubleType: "a number",
    types.TinyIntType: "a number",
    types.SmallIntType: "a number",
    types.IntType: "a number",
    types.BigIntType: "a number",
    types.DecimalType: "an int, a Decimal or a text such as '1.5', which are exact",
    types.DateType: "a datetime.date, or a text such as '2026-03-01'",
    types.TimeType: "a datetime.time without a time zone",
    types.TimestampType: "a datetime without a time zone",
    types.TimestampLtzType: "a datetime with a time zone, such as datetime.now(UTC)",
}


# One column compared with values that it can hold.

IN_LITERALS_PUSHED_MAX = 256
NULL_CHECKS = (LeafFunction.IS_NULL, LeafFunction.IS_NOT_NULL)
LISTS = (LeafFunction.IN, LeafFunction.NOT_IN)
_MILLIS_PRECISION_MAX = 3
_LONG_MAX = 2**63 - 1
_NANOS_PER_MILLI = 1_000_000
# Functions of Arrow by name, so that they are loaded only where something is compared.
_COMPARE: dict[LeafFunction, str] = {
    LeafFunction.EQUAL: "equal",
    LeafFunction.NOT_EQUAL: "not_equal",
    LeafFunction.LESS_THAN: "less",
    LeafFunction.LESS_OR_EQUAL: "less_equal",
    LeafFunction.GREATER_THAN: "greater",
    LeafFunction.GREATER_OR_EQUAL: "greater_equal",
}
_SEARCH: dict[LeafFunction, str] = {
    LeafFunction.STARTS_WITH: "starts_with",
    LeafFunction.CONTAINS: "match_substring",
    LeafFunction.ENDS_WITH: "ends_with",
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare one column with values that it can hold; an empty IN never holds."""

    column: Column
    function: LeafFunction
    values: tuple[Native, ...] = ()

    @classmethod
    def of_leaf(cls, leaf: Leaf, column: Column) -> "Comparison":
        """Return a test as it was before it was sent."""
        values = tuple(native_of(each, column.type) for each in leaf.literals)
        return cls(column, leaf.function, values)

    def mask(self, array: pa.Array) -> pa.BooleanArray:
        """Return where the test holds, which a comparison with null never does."""
        if self.function is LeafFunction.IS_NULL:
            return array.is_null()
        if self.function is LeafFunction.IS_NOT_NULL:
            return array.is_valid()
        if self.function in LISTS:
            return self._listed(array)
        if isinstance(self.column.type, types.BinaryType):
            array = array.cast(pa.binary())
        if self.function in _SEARCH:
            search = getattr(pc, _SEARCH[self.function])
            return search(array, str(self.values[0])).fill_null(False)
        scalar = scalar_of(self.values[0], self.column.type)
        return getattr(pc, _COMPARE[self.function])(array, scalar).fill_null(False)

    def _listed(self, array: pa.Array) -> pa.BooleanArray:
        if not self.values:
            return pa.array(np.full(len(array), self.function is LeafFunction.NOT_IN))
        scalars = [scalar_of(value, self.column.type) for value in self.values]
        values = pa.array(scalars, scalars[0].type)
        if isinstance(self.column.type, types.BinaryType):
            array = array.cast(pa.binary())
        found = pc.is_in(array, values)
        if self.function is LeafFunction.IN:
            return found
        return pc.and_(pc.invert(found), array.is_valid())

    @property
    def is_pushed(self) -> bool:
        """Tell whether a server can do something with the test, and means the same by it."""
        if self.function in NULL_CHECKS:
            return True
        if self.function in (LeafFunction.CONTAINS, LeafFunction.ENDS_WITH):
            return False
        if not 0 < len(self.values) <= IN_LITERALS_PUSHED_MAX:
            return False
        match self.column.type:
            case types.BytesType() | types.BinaryType():
                return False
            case types.TimeType(precision=precision):
                # Servers know times by the millisecond.
                return precision <= _MILLIS_PRECISION_MAX
            case types.FloatType() | types.DoubleType():
                # Java tells 0.0 from -0.0, and has NaN above all numbers.
                return all(value and not math.isnan(value) for value in map(float, self.values))
            case _:
                return all(map(self._fits, self.values))

    def _fits(self, value: Native) -> bool:
        literal = literal_of(value, self.column.type)
        if not isinstance(literal, int):
            return True
        return -_LONG_MAX <= literal // _NANOS_PER_MILLI <= _LONG_MAX

    def leaf(self) -> Leaf:
        """Return the test as servers take it."""
        literals = tuple(literal_of(value, self.column.type) for value in self.values)
        return Leaf(self.function, self.column.column_id, literals)
