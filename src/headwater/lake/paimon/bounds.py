"""The bounds of columns in data files, as values that filters compare with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.lake.paimon.binary_row import is_bytes, to_binary_row
from headwater.lake.paimon.manifests import Value
from headwater.model.predicate import Literal
from headwater.rows.aligned_row import NANOS_PER_MILLI, holds

_NANOS = {"s": 1_000_000_000, "ms": NANOS_PER_MILLI, "us": 1_000, "ns": 1}
_INT_BITS = 32
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
# Longer text would fill manifests; without a bound a file is just never left out.
_TEXT_LENGTH_MAX = 128


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bound the values of one column of a file; None: not known, or all are null."""

    minimum: Literal
    maximum: Literal
    null_count: int


NOTHING = Bounds(None, None, 0)


def bounds_of(column: pa.Array | pa.ChunkedArray) -> Bounds:
    """Return the bounds of values."""
    nulls = int(column.null_count)
    if nulls == len(column) or not (holds(column.type) or is_bytes(column.type)):
        return Bounds(None, None, nulls)
    if pa.types.is_floating(column.type):
        return _float_bounds(column, nulls)
    found = pc.min_max(_whole_numbers(column))
    low, high = (literal_of(found[name], column.type) for name in ("min", "max"))
    if _is_long(low) or _is_long(high):
        return Bounds(None, None, nulls)
    return Bounds(low, high, nulls)


def literals_of(column: pa.Array) -> list[Literal]:
    """Return values as filters write them: whole numbers for dates and times."""
    return [literal_of(each, column.type) for each in _whole_numbers(column)]


def literal_of(value: pa.Scalar, data_type: pa.DataType) -> Literal:
    """Return a value that went through `_whole_numbers` as filters write it."""
    found: Literal = value.as_py()
    if not isinstance(found, int) or not pa.types.is_temporal(data_type):
        return found
    if pa.types.is_date(data_type):
        return found
    nanos = found * _NANOS[data_type.unit]
    if pa.types.is_time(data_type):
        return nanos // NANOS_PER_MILLI
    return nanos if _LONG_MIN <= nanos // NANOS_PER_MILLI <= _LONG_MAX else None


def merged(parts: Iterable[Bounds]) -> Bounds:
    """Return bounds that hold for all parts of a column."""
    low: Literal = None
    high: Literal = None
    nulls, is_first = 0, True
    for part in parts:
        nulls += part.null_count
        low = part.minimum if is_first else _lower(low, part.minimum)
        high = part.maximum if is_first else _higher(high, part.maximum)
        is_first = False
    return Bounds(low, high, nulls)


def to_record(types: Sequence[pa.DataType], bounds: Sequence[Bounds]) -> dict[str, Value]:
    """Write bounds as they stand in the record of a data file."""
    return {
        "_MIN_VALUES": to_binary_row(types, [each.minimum for each in bounds]),
        "_MAX_VALUES": to_binary_row(types, [each.maximum for each in bounds]),
        "_NULL_COUNTS": [each.null_count for each in bounds],
    }


def _whole_numbers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    # Objects of Python's datetime end at microseconds and at the year 9999.
    if not pa.types.is_temporal(column.type):
        return column
    whole = pa.int32() if column.type.bit_width == _INT_BITS else pa.int64()
    return column.cast(whole) if isinstance(column, pa.ChunkedArray) else column.view(whole)


def _float_bounds(column: pa.Array | pa.ChunkedArray, nulls: int) -> Bounds:
    values = column.drop_null().to_numpy()
    # Readers order NaN and the two zeros in different ways: leave such files in.
    if np.isnan(values).any():
        return Bounds(None, None, nulls)
    low, high = float(values.min()), float(values.max())
    return Bounds(-0.0 if low == 0 else low, 0.0 if high == 0 else high, nulls)


def _is_long(value: Literal) -> bool:
    return isinstance(value, str | bytes) and len(value) > _TEXT_LENGTH_MAX


def _lower(left: Literal, right: Literal) -> Literal:
    if left is None or right is None:
        return None
    return min(left, right)


def _higher(left: Literal, right: Literal) -> Literal:
    if left is None or right is None:
        return None
    return max(left, right)
