"""Columns made of plain Python values, without losing anything on the way."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from types import NoneType

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidValueError

_FLOAT_END = 2.0**128 - 2.0**103
"""Numbers from here on are infinite when rounded to 32 bits."""
_MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
_SAMPLE_CHARACTERS_MAX = 60
_REASON_CHARACTERS_MAX = 120


def column_of(values: Sequence[object], field: pa.Field) -> pa.Array:
    """Return plain values as a column of the type of a field, or say which does not fit."""
    if _needs_look(field.type, values):
        for value in values:
            if why := fault_of(value, field.type):
                raise _error(field, value, why)
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        sample, why = _first_refused(values, field.type)
        raise _error(field, sample, why or str(error).splitlines()[0]) from None


def fault_of(value: object, kind: pa.DataType) -> str:
    """Return why a type must not take a value that Arrow would bend to fit, or nothing."""
    if value is None:
        return ""
    if pa.types.is_integer(kind):
        return _integer_fault(value)
    if pa.types.is_float32(kind):
        return _float_fault(value)
    if pa.types.is_temporal(kind):
        return _temporal_fault(value, kind)
    return _nested_fault(value, kind)


def _temporal_fault(value: object, kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return _timestamp_fault(value, kind)
    return _date_fault(value) if pa.types.is_date(kind) else _time_fault(value, kind)


def _needs_look(kind: pa.DataType, values: Sequence[object]) -> bool:
    if pa.types.is_integer(kind):
        return not set(map(type, values)) <= {int, NoneType}
    return pa.types.is_float32(kind) or pa.types.is_temporal(kind) or pa.types.is_nested(kind)


def _integer_fault(value: object) -> str:
    if isinstance(value, int | np.integer):
        return ""
    # Arrow cuts off whatever can be made an integer.
    is_whole = isinstance(value, float | np.floating | Decimal) and value % 1 == 0
    return "" if is_whole else "is no whole number"


def _float_fault(value: object) -> str:
    is_large = isinstance(value, float) and not math.isinf(value) and abs(value) >= _FLOAT_END
    return "is too large" if is_large else ""


def _timestamp_fault(value: object, kind: pa.DataType) -> str:
    if not isinstance(value, datetime):
        return "is no datetime"
    if (value.tzinfo is None) != (kind.tz is None):
        return "has no time zone" if kind.tz else "has a time zone, but the column has none"
    return _precision_fault(value, kind)


def _date_fault(value: object) -> str:
    if not isinstance(value, date):
        return "is no date"
    return "has a time of day" if isinstance(value, datetime) and not _is_midnight(value) else ""


def _time_fault(value: object, kind: pa.DataType) -> str:
    if not isinstance(value, time):
        return "is no time of day"
    return "has a time zone" if value.tzinfo is not None else _precision_fault(value, kind)


def _precision_fault(value: datetime | time, kind: pa.DataType) -> str:
    # What pandas calls a timestamp has nanoseconds as well.
    nanos = 0 if kind.unit == "ns" else getattr(value, "nanosecond", 0)
    is_fine = value.microsecond % _MICROS_PER_UNIT[kind.unit] or nanos
    return f"is finer than the column, which has the unit {kind.unit}" if is_fine else ""


def _is_midnight(value: datetime) -> bool:
    return value.tzinfo is None and value.time() == time.min and not getattr(value, "nanosecond", 0)


def _nested_fault(value: object, kind: pa.DataType) -> str:
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        return _struct_fault(value, kind)
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        return _first_fault(pairs, lambda pair: _pair_fault(pair, kind))
    if pa.types.is_list(kind):
        return _first_fault(value, lambda element: fault_of(element, kind.value_type))
    return ""


def _struct_fault(value: Mapping[str, object], kind: pa.StructType) -> str:
    names = {field.name for field in kind}
    if unknown := [name for name in value if name not in names]:
        return f"has the field '{unknown[0]}', which is unknown"
    return _first_fault(kind, lambda field: fault_of(value.get(field.name), field.type))


def _pair_fault(pair: object, kind: pa.DataType) -> str:
    if not isinstance(pair, Sequence) or len(pair) != 2:  # noqa: PLR2004
        return "is no map, nor a list of pairs"
    return fault_of(pair[0], kind.key_type) or fault_of(pair[1], kind.item_type)


def _first_fault(values: object, check: Callable[[pa.Field], str]) -> str:
    """Return the first fault among values; Arrow itself refuses what cannot be gone through."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        return ""
    return next(filter(None, map(check, values)), "")


def _first_refused(values: Sequence[object], kind: pa.DataType) -> tuple[object, str]:
    for value in values:
        try:
            pa.array([value], kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            return value, f"does not fit: {str(error).splitlines()[0]}"
    return values, ""


def _error(field: pa.Field, value: object, why: str) -> InvalidValueError:
    return InvalidValueError(
        f"The column '{field.name}' of type {field.type} cannot hold "
        f"{_cut(repr(value), _SAMPLE_CHARACTERS_MAX)}: it {_cut(why, _REASON_CHARACTERS_MAX)}."
    )


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"
