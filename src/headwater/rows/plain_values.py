"""Columns from plain Python values, without loss.

Values may be written as text: dates and times in ISO format, exact numbers as digits. Text is
parsed first; then each value is checked, because Arrow would silently change some to fit.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import partial
from types import NoneType
from typing import TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidValueError

Check: TypeAlias = Callable[[object], str]
Reader: TypeAlias = Callable[[object], object]

_FLOAT_END = 2.0**128 - 2.0**103
"""Numbers from here on round to infinity in 32 bits."""
_MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
# A datetime is never finer than these.
_UNITS_OF_DATETIME = ("us", "ns")
_SAMPLE_CHARACTERS_MAX = 60
_REASON_CHARACTERS_MAX = 120
_FINER_THAN_MICROS = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")
_PLAIN_DECIMALS = {Decimal, int, NoneType}


def column_of(values: Sequence[object], field: pa.Field) -> pa.Array:
    """Convert plain values to a column of the field's type; the error names the first misfit."""
    values = _as_meant(values, field.type)
    check = None if _are_plain(values, field.type) else _check_of(field.type)
    if check is not None:
        for value in values:
            if value is not None and (why := check(value)):
                raise _error(field, value, why)
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        sample, why = _first_refused(values, field.type)
        raise _error(field, sample, why or str(error).splitlines()[0]) from None


def _are_plain(values: Sequence[object], kind: pa.DataType) -> bool:
    """Tell quickly whether all values have the expected types, as they nearly always do.

    This is one pass over the types of all values, a tenth of the cost of checking each.
    """
    if pa.types.is_integer(kind):
        return set(map(type, values)) <= {int, NoneType}
    if pa.types.is_timestamp(kind) and kind.unit in _UNITS_OF_DATETIME:
        if not set(map(type, values)) <= {datetime, NoneType}:
            return False
        zones = {value.tzinfo is not None for value in values if isinstance(value, datetime)}
        return zones <= {kind.tz is not None}
    return pa.types.is_decimal(kind) and set(map(type, values)) <= _PLAIN_DECIMALS


# ---- text that stands for other values


def _as_meant(values: Sequence[object], kind: pa.DataType) -> Sequence[object]:
    """Parse values that are written as text, unless the column is text."""
    read = _reader_of(kind)
    if read is None:
        return values
    if not pa.types.is_nested(kind) and not any(
        issubclass(each, str) for each in set(map(type, values))
    ):
        return values
    return [None if value is None else read(value) for value in values]


def _reader_of(kind: pa.DataType) -> Reader | None:
    """Return the parser of text for a type; None if there is none."""
    if pa.types.is_timestamp(kind):
        return partial(_read, parse=datetime.fromisoformat)
    if pa.types.is_date(kind):
        return partial(_read, parse=date.fromisoformat)
    if pa.types.is_time(kind):
        return partial(_read, parse=time.fromisoformat)
    if pa.types.is_decimal(kind):
        return _read_decimal
    if pa.types.is_map(kind):
        pair = _reader_of(kind.key_type), _reader_of(kind.item_type)
        return None if pair == (None, None) else partial(_read_map, readers=pair)
    if pa.types.is_struct(kind):
        readers = {field.name: _reader_of(field.type) for field in kind}
        return partial(_read_struct, readers=readers) if any(readers.values()) else None
    element = _reader_of(kind.value_type) if pa.types.is_nested(kind) else None
    return None if element is None else partial(_read_list, reader=element)


def _read(value: object, *, parse: Callable[[str], object]) -> object:
    # More digits than microseconds would be dropped silently.
    if not isinstance(value, str) or _FINER_THAN_MICROS.search(value):
        return value
    try:
        return parse(value)
    except ValueError:
        return value


def _read_decimal(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return number if (number := Decimal(value)).is_finite() else value
    except InvalidOperation:
        return value


def _read_struct(value: object, *, readers: Mapping[str, Reader | None]) -> object:
    if isinstance(value, tuple) and len(value) == len(readers):
        return tuple(map(_read_one, value, readers.values()))
    if not isinstance(value, Mapping):
        return value
    return {name: _read_one(each, readers.get(name)) for name, each in value.items()}


def _read_map(value: object, *, readers: tuple[Reader | None, Reader | None]) -> object:
    pairs = value.items() if isinstance(value, Mapping) else value
    if not _can_go_through(pairs):
        return value
    return [
        tuple(map(_read_one, pair, readers)) if isinstance(pair, Sequence) else pair
        for pair in pairs
    ]


def _read_list(value: object, *, reader: Reader) -> object:
    if not _can_go_through(value):
        return value
    return [_read_one(each, reader) for each in value]


def _read_one(value: object, reader: Reader | None) -> object:
    return value if value is None or reader is None else reader(value)


# ---- checks


def _check_of(kind: pa.DataType) -> Check | None:
    """Return a check for values that Arrow would silently change to fit a type, if any."""
    if pa.types.is_integer(kind):
        return _integer_fault
    if pa.types.is_float32(kind):
        return _float_fault
    if pa.types.is_timestamp(kind):
        return partial(_timestamp_fault, is_zoned=kind.tz is not None, unit=kind.unit)
    if pa.types.is_date(kind):
        return _date_fault
    if pa.types.is_time(kind):
        return partial(_time_fault, unit=kind.unit)
    if pa.types.is_decimal(kind):
        return _decimal_fault
    return _nested_check(kind) if pa.types.is_nested(kind) else None


def _nested_check(kind: pa.DataType) -> Check | None:
    if pa.types.is_struct(kind):
        return partial(_struct_fault, checks={field.name: _check_of(field.type) for field in kind})
    if pa.types.is_map(kind):
        checks = (_check_of(kind.key_type), _check_of(kind.item_type))
        return partial(_map_fault, checks=checks)
    element = _check_of(kind.value_type)
    return None if element is None else partial(_list_fault, check=element)


def _integer_fault(value: object) -> str:
    if isinstance(value, int | np.integer):
        return ""
    # Arrow truncates whatever can be made an integer.
    is_whole = isinstance(value, float | np.floating | Decimal) and value % 1 == 0
    return "" if is_whole else "is not a whole number"


def _float_fault(value: object) -> str:
    is_large = isinstance(value, float) and not math.isinf(value) and abs(value) >= _FLOAT_END
    return "is too large" if is_large else ""


def _decimal_fault(value: object) -> str:
    if isinstance(value, float | np.floating):
        return f"is a float, which is not exact; use Decimal('{value}')"
    return "is not a number" if isinstance(value, str) else ""


def _timestamp_fault(value: object, *, is_zoned: bool, unit: str) -> str:
    if not isinstance(value, datetime):
        return "is not a datetime, nor a text such as '2026-03-01T12:30:00'"
    if (value.tzinfo is not None) != is_zoned:
        lacking = "has no time zone, such as +00:00"
        return lacking if is_zoned else "has a time zone, but the column has none"
    return _precision_fault(value, unit)


def _date_fault(value: object) -> str:
    if not isinstance(value, date):
        return "is not a date, nor a text such as '2026-03-01'"
    return "has a time of day" if isinstance(value, datetime) and not _is_midnight(value) else ""


def _time_fault(value: object, *, unit: str) -> str:
    if not isinstance(value, time):
        return "is not a time of day, nor a text such as '12:30:00'"
    return "has a time zone" if value.tzinfo is not None else _precision_fault(value, unit)


def _precision_fault(value: datetime | time, unit: str) -> str:
    # A pandas timestamp also has nanoseconds.
    nanos = 0 if unit == "ns" else getattr(value, "nanosecond", 0)
    is_fine = value.microsecond % _MICROS_PER_UNIT[unit] or nanos
    return f"is finer than the column, whose unit is {unit}" if is_fine else ""


def _is_midnight(value: datetime) -> bool:
    return value.tzinfo is None and value.time() == time.min and not getattr(value, "nanosecond", 0)


def _struct_fault(value: object, *, checks: Mapping[str, Check | None]) -> str:
    if isinstance(value, tuple) and len(value) == len(checks):
        # Arrow takes the fields of a tuple in order.
        value = dict(zip(checks, value, strict=True))
    if not isinstance(value, Mapping):
        return "is not a row"
    if unknown := [name for name in value if name not in checks]:
        return f"has the unknown field '{unknown[0]}'"
    return _first(_fault(value.get(name), check) for name, check in checks.items())


def _map_fault(value: object, *, checks: tuple[Check | None, Check | None]) -> str:
    pairs = value.items() if isinstance(value, Mapping) else value
    if not _can_go_through(pairs):
        return "is not a map"
    return _first(_pair_fault(pair, checks) for pair in pairs)


def _pair_fault(pair: object, checks: tuple[Check | None, Check | None]) -> str:
    if not isinstance(pair, Sequence) or len(pair) != len(checks):
        return "is not a map, nor a list of pairs"
    return _fault(pair[0], checks[0]) or _fault(pair[1], checks[1])


def _list_fault(value: object, *, check: Check) -> str:
    if not _can_go_through(value):
        return "is not a list"
    return _first(_fault(element, check) for element in value)


def _can_go_through(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _fault(value: object, check: Check | None) -> str:
    return "" if value is None or check is None else check(value)


def _first(faults: Iterable[str]) -> str:
    return next(filter(None, faults), "")


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
