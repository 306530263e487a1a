"""Values of partition columns as text in partition names, and back."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidPartitionError
from headwater.model import types

PartitionValue: TypeAlias = str | bool | int | float | bytes | date | time | datetime

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH_YEAR = 1970
_FOUR_DIGITS_MAX = 9999
# Java writes numbers in this range without an exponent.
_PLAIN_MIN, _PLAIN_END = 1e-3, 1e7
_WHOLE = re.compile(r"-?[0-9]+\Z")
_FLOATS = {"NaN": float("nan"), "Inf": float("inf"), "-Inf": float("-inf")}
_TEXT_OF_INFINITY = {float("inf"): "Inf", float("-inf"): "-Inf"}


def partition_texts(values: pa.Array, data_type: types.DataType) -> list[str]:
    """Format values, none of them null, as Apache Fluss does."""
    match data_type:
        case types.BooleanType():
            return ["true" if value else "false" for value in values.to_pylist()]
        case types.BytesType() | types.BinaryType():
            return [value.hex() for value in values.to_pylist()]
        case types.FloatType() | types.DoubleType():
            return [_float_text(value) for value in values.to_numpy()]
        case types.DateType():
            return [_date_text(days) for days in values.cast(pa.int32()).to_pylist()]
        case types.TimeType() | types.TimestampType() | types.TimestampLtzType():
            return _clock_texts(values)
        case _:
            return [str(value) for value in values.to_pylist()]


def partition_value(text: str, data_type: types.DataType) -> PartitionValue:
    """Parse a value from a partition name, to the microsecond."""
    read = _READERS.get(type(data_type))
    if read is None:
        raise InvalidPartitionError(f"A column of type {data_type} cannot partition a table.")
    try:
        return read(text)
    except (ValueError, OverflowError):
        raise InvalidPartitionError(
            f"The partition value '{text[:80]}' is not a valid {data_type.not_null()}."
        ) from None


def _clock_texts(values: pa.Array) -> list[str]:
    per_second = _PER_SECOND[values.type.unit]
    if pa.types.is_timestamp(values.type):
        return [_timestamp_text(n, per_second) for n in values.cast(pa.int64()).to_pylist()]
    width = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
    # Fluss stores times as milliseconds of the day, whatever the unit of the column.
    millis = [n * 1000 // per_second for n in values.cast(width).to_pylist()]
    return [_time_text(each) for each in millis]


def _date_text(days: int) -> str:
    year, month, day = _civil(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _time_text(millis: int) -> str:
    seconds, millis = divmod(millis, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}-{minute:02d}-{second:02d}_{millis:03d}"


def _timestamp_text(number: int, per_second: int) -> str:
    seconds, rest = divmod(number, per_second)
    days, second_of_day = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    # Java's pattern counts years within their era, and puts a plus before more than four digits.
    era_year = year if year > 0 else 1 - year
    sign = "+" if era_year > _FOUR_DIGITS_MAX else ""
    clock = _time_text(second_of_day * 1000).partition("_")[0]
    fraction = f"{rest * (10**9 // per_second):09d}".rstrip("0")
    return f"{sign}{era_year:04d}-{month:02d}-{day:02d}-{clock}_{fraction}"


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day, even outside of Python's calendar."""
    instant = np.datetime64(days, "D")
    month = instant.astype("datetime64[M]")
    months = int(month.astype(np.int64))
    return _EPOCH_YEAR + months // 12, months % 12 + 1, int((instant - month).astype(int)) + 1


def _float_text(value: np.floating) -> str:
    number = float(value)
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return _TEXT_OF_INFINITY[number]
    digits, exponent = _shortest(value)
    sign = "-" if np.signbit(value) else ""
    if number == 0 or _PLAIN_MIN <= abs(number) < _PLAIN_END:
        return f"{sign}{_plain(digits, exponent)}"
    return f"{sign}{digits[0]}_{digits[1:] or '0'}E{exponent}"


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"0_{'0' * (-exponent - 1)}{digits}"
    padded = digits.ljust(exponent + 1, "0")
    return f"{padded[: exponent + 1]}_{padded[exponent + 1 :] or '0'}"


def _shortest(value: np.floating) -> tuple[str, int]:
    """Return the fewest digits that identify this number, and the power of the first digit."""
    mantissa, exponent = np.format_float_scientific(abs(value), trim="-").split("e")
    if len(mantissa) == 1:
        # Java uses a second digit where that is closer: 4.9E-324, not 5.0E-324.
        finer = f"{abs(float(value)):.1e}"
        if type(value)(finer) == abs(value):
            mantissa, exponent = finer.split("e")
    return mantissa.replace(".", "").rstrip("0") or "0", int(exponent)


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _read_int(text: str) -> int:
    if not _WHOLE.match(text):
        raise ValueError(text)
    return int(text)


def _read_float(text: str) -> float:
    return _FLOATS[text] if text in _FLOATS else float(text.replace("_", "."))


def _read_time(text: str) -> time:
    clock, _, millis = text.partition("_")
    hour, minute, second = (_read_int(part) for part in clock.split("-"))
    return time(hour, minute, second, _read_int(millis) * 1000)


def _read_timestamp(text: str) -> datetime:
    moment, _, fraction = text.partition("_")
    year, month, day, *clock = (_read_int(part) for part in moment.split("-"))
    hour, minute, second = (*clock, 0, 0, 0)[:3]
    micros = int(fraction.ljust(9, "0")) // 1000
    return datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001


def _read_instant(text: str) -> datetime:
    return _read_timestamp(text).replace(tzinfo=UTC)


_READERS: dict[type[types.DataType], Callable[[str], PartitionValue]] = {
    types.BooleanType: _read_bool,
    types.TinyIntType: _read_int,
    types.SmallIntType: _read_int,
    types.IntType: _read_int,
    types.BigIntType: _read_int,
    types.FloatType: _read_float,
    types.DoubleType: _read_float,
    types.StringType: str,
    types.CharType: str,
    types.BytesType: bytes.fromhex,
    types.BinaryType: bytes.fromhex,
    types.DateType: date.fromisoformat,
    types.TimeType: _read_time,
    types.TimestampType: _read_timestamp,
    types.TimestampLtzType: _read_instant,
}
