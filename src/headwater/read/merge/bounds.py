"""Which files can hold a changed key, told by the bounds of their columns."""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext

import numpy as np
import pyarrow as pa

from headwater.lake.split import ColumnBounds, LakeFile
from headwater.model import Column, TableInfo, types
from headwater.model.arrow import arrow_type, time_unit
from headwater.model.predicate import Literal
from headwater.read.merge.keys import Mask
from headwater.read.merge.order import NAN, ascending, float_ranks, orderable
from headwater.rows.compute import pc

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_EXACT = Context(prec=1_000)
_FLOATS = (types.FloatType, types.DoubleType)
_WHOLE = (
    types.BooleanType,
    types.TinyIntType,
    types.SmallIntType,
    types.IntType,
    types.BigIntType,
    types.DateType,
)

Limit = int | bytes | Decimal | None
"""A value in the order of keys; None: there is no limit."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyValues:
    """Hold the values of one column of changed keys, in the order of keys."""

    column: Column
    values: pa.Array
    has_nan: bool

    @classmethod
    def of(cls, column: Column, values: pa.Array) -> "KeyValues":
        """Hold values of a column."""
        found = orderable(values)
        is_float = isinstance(column.type, _FLOATS)
        return cls(column, found, is_float and bool((found.to_numpy() == NAN).any()))

    def limits(self, bounds: ColumnBounds | None) -> tuple[Limit, Limit]:
        """Return bounds of a file as limits of these values, None where there is none."""
        if bounds is None:
            return None, None
        kind = self.column.type
        # Formats do not agree on where NaN lies.
        upper = None if self.has_nan else _upper(bounds.upper, kind)
        return _lower(bounds.lower, kind), upper

    def span(self, lower: Limit, upper: Limit) -> tuple[int, int]:
        """Return where values that ascend lie within limits."""
        places = range(len(self.values))
        start = 0 if lower is None else bisect_left(places, lower, key=self._value)
        end = len(places) if upper is None else bisect_right(places, upper, key=self._value)
        return start, end

    def within(self, lower: Limit, upper: Limit, *, start: int, end: int) -> Mask:
        """Tell which values between two places lie within limits."""
        values = self.values.slice(start, end - start)
        is_within = np.ones(len(values), np.bool_)
        if lower is not None:
            is_within &= _mask(pc.greater_equal(values, pa.scalar(lower, _wide(values.type))))
        if upper is not None:
            is_within &= _mask(pc.less_equal(values, pa.scalar(upper, _wide(values.type))))
        return is_within

    def reaching(self, more: pa.Array) -> "KeyValues":
        """Return the lowest and the highest of these and further values."""
        further = KeyValues.of(self.column, more)
        values = pa.concat_arrays([self.values, further.values])
        order = ascending([values])
        ends = pa.array(order[[0, -1]] if len(order) else order)
        return KeyValues(self.column, values.take(ends), self.has_nan or further.has_nan)

    def reaches(self, lower: Limit, upper: Limit) -> bool:
        """Tell whether something between the lowest and the highest value is within limits."""
        if not len(self.values):
            return False
        _, below = self.span(None, upper)
        above, _ = self.span(lower, None)
        return below > 0 and above < len(self.values)

    def _value(self, place: int) -> int | bytes | Decimal:
        value: int | bytes | Decimal = self.values[place].as_py()
        return value


@dataclass(frozen=True, slots=True, eq=False)
class KeyRanges:
    """Hold changed keys in the order of their first column, to compare them with bounds."""

    columns: tuple[KeyValues, ...]

    @classmethod
    def of(cls, table: TableInfo, keys: pa.Table) -> "KeyRanges":
        """Hold the keys of one bucket; the partition is the same for all of them."""
        names = table.descriptor.physical_primary_key
        keys = keys.select(list(names)).combine_chunks()
        arrays = [pa.concat_arrays(column.chunks) for column in keys.columns]
        order = pa.array(ascending([orderable(arrays[0])]))
        return cls(
            tuple(
                KeyValues.of(table.schema.column(name), array.take(order))
                for name, array in zip(names, arrays, strict=True)
            )
        )

    def may_meet(self, file: LakeFile) -> bool:
        """Tell whether one of the keys lies within the bounds of every column of a file."""
        bounds = {each.column_id: each for each in file.bounds}
        first, *others = self.columns
        start, end = first.span(*first.limits(bounds.get(first.column.column_id)))
        if start >= end:
            return False
        is_within = np.ones(end - start, np.bool_)
        for other in others:
            limits = other.limits(bounds.get(other.column.column_id))
            is_within &= other.within(*limits, start=start, end=end)
        return bool(is_within.any())


@dataclass(frozen=True, slots=True, eq=False)
class KeyExtent:
    """Hold how far changed keys reach, column by column, where they are too many to compare."""

    columns: tuple[KeyValues, ...]
    """The lowest and the highest value of each column, or none."""

    @classmethod
    def of(cls, table: TableInfo) -> "KeyExtent":
        """Reach nowhere yet."""
        columns = [table.schema.column(name) for name in table.descriptor.physical_primary_key]
        none = [pa.array([], arrow_type(column.type)) for column in columns]
        return cls(tuple(KeyValues.of(*each) for each in zip(columns, none, strict=True)))

    def with_keys(self, keys: pa.RecordBatch) -> "KeyExtent":
        """Reach as far as further keys as well."""
        return KeyExtent(
            tuple(held.reaching(keys.column(held.column.name)) for held in self.columns)
        )

    def may_meet(self, file: LakeFile) -> bool:
        """Tell whether a key may lie within the bounds of every column of a file."""
        bounds = {each.column_id: each for each in file.bounds}
        return all(
            held.reaches(*held.limits(bounds.get(held.column.column_id))) for held in self.columns
        )


def _mask(found: pa.BooleanArray) -> Mask:
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


def _wide(kind: pa.DataType) -> pa.DataType:
    """Return the type of limits of values."""
    if pa.types.is_decimal(kind):
        return pa.decimal128(types.DECIMAL_PRECISION_MAX, kind.scale)
    return kind if pa.types.is_binary(kind) else pa.int64()


def _lower(literal: Literal, kind: types.DataType) -> Limit:
    """Return a limit that is not above what a literal says."""
    match kind, literal:
        case types.DecimalType(scale=scale), Decimal() | int():
            return _rounded(Decimal(literal), scale, rounding=ROUND_FLOOR)
        case types.TimeType(precision=precision), int():
            return literal * _PER_SECOND[time_unit(precision)] // _PER_SECOND["ms"]
        case types.TimestampType(precision=precision) | types.TimestampLtzType(
            precision=precision
        ), int():
            return _whole(literal * _PER_SECOND[time_unit(precision)] // _PER_SECOND["ns"])
        case _:
            return _plain(literal, kind)


def _upper(literal: Literal, kind: types.DataType) -> Limit:
    """Return a limit that is not below what a literal says."""
    match kind, literal:
        case types.DecimalType(scale=scale), Decimal() | int():
            return _rounded(Decimal(literal), scale, rounding=ROUND_CEILING)
        case types.TimeType(precision=precision), int():
            # Whatever is finer than a millisecond does not stand in the literal.
            return (literal + 1) * _PER_SECOND[time_unit(precision)] // _PER_SECOND["ms"]
        case types.TimestampType(precision=precision) | types.TimestampLtzType(
            precision=precision
        ), int():
            return _whole(-(-literal * _PER_SECOND[time_unit(precision)] // _PER_SECOND["ns"]))
        case _:
            return _plain(literal, kind)


def _plain(literal: Literal, kind: types.DataType) -> Limit:
    match kind, literal:
        case types.FloatType() | types.DoubleType(), int() | float():
            return _rank(literal)
        case types.StringType() | types.CharType(), str():
            return literal.encode()
        case types.BytesType() | types.BinaryType(), bytes():
            return literal
        case _, int() if isinstance(kind, _WHOLE):
            return _whole(int(literal))
        case _:
            return None


def _rank(literal: float) -> Limit:
    return None if math.isnan(literal) else int(float_ranks(np.array([float(literal)]))[0])


def _whole(number: int) -> int:
    """Return the nearest number that Arrow can hold; values beyond it cannot be."""
    return min(max(number, _INT_MIN), _INT_MAX)


def _rounded(literal: Decimal, scale: int, *, rounding: str) -> Limit:
    if not literal.is_finite():
        return None
    with localcontext(_EXACT):
        rounded = literal.quantize(Decimal((0, (1,), -scale)), rounding=rounding)
    return rounded if len(rounded.as_tuple().digits) <= types.DECIMAL_PRECISION_MAX else None
