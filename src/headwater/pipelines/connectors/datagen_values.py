"""Values of the connector `datagen`, as a pure function of the number of a row.

Each value is hashed from the row's number and the column's, so a row is the same in every attempt
and in every run, and any range of rows can be made by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidOptionError, UnsupportedError

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_FRACTION = 2.0**-53
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_MILLIS_PER_DAY = 86_400_000
_DIGITS_MAX = 18
"""Random decimals have at most this many digits, so that they can be made as whole numbers."""

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
Bits = np.ndarray[tuple[int], np.dtype[np.uint64]]


class FieldKind(StrEnum):
    """How the values of a column are made."""

    RANDOM = "random"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """What is said about one column; None where nothing is said."""

    kind: FieldKind = FieldKind.RANDOM
    low: float | None = None
    high: float | None = None
    length: int | None = None
    varies: bool = False
    start: int | None = None
    end: int | None = None
    past_ms: int = 0
    null_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class RowTimes:
    """When rows are made: the first one, and how many in each second."""

    begin_ms: int
    rows_per_second: int


def random_bits(numbers: Numbers, salt: int) -> Bits:
    """Hash row numbers to 64 bits each (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) * _GOLDEN + random_seed(salt)
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
        return z ^ (z >> np.uint64(31))


def random_seed(salt: int) -> np.uint64:
    """The start of a stream of bits, far from those of other salts."""
    return np.uint64((salt * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % 2**64)


def _fractions(bits: Bits) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return (bits >> np.uint64(11)).astype(np.float64) * _FRACTION


def column(
    name: str, kind: pa.DataType, rule: FieldRule, *, numbers: Numbers, salt: int, times: RowTimes
) -> pa.Array:
    """Make the values of one column for some rows."""
    if rule.kind is FieldKind.SEQUENCE:
        return _sequence(name, kind, rule, numbers)
    made = _maker(name, kind)(kind, rule, _Rows(numbers, salt, times))
    if not rule.null_rate:
        return made
    is_null = _fractions(random_bits(numbers, ~salt)) < rule.null_rate
    return pc.if_else(pa.array(is_null), pa.scalar(None, made.type), made)


@dataclass(frozen=True, slots=True)
class _Rows:
    numbers: Numbers
    salt: int
    times: RowTimes

    def bits(self, part: int = 0) -> Bits:
        return random_bits(self.numbers, self.salt * 4099 + part)


_Maker = Callable[[pa.DataType, FieldRule, _Rows], pa.Array]


def _maker(name: str, kind: pa.DataType) -> _Maker:
    tests: tuple[tuple[Callable[[pa.DataType], bool], _Maker], ...] = (
        (pa.types.is_integer, _integers),
        (pa.types.is_floating, _floats),
        (pa.types.is_boolean, _booleans),
        (pa.types.is_string, _strings),
        (pa.types.is_binary, _binaries),
        (pa.types.is_decimal, _decimals),
        (pa.types.is_timestamp, _timestamps),
        (pa.types.is_date, _dates),
        (pa.types.is_time, _day_times),
    )
    for fits, make in tests:
        if fits(kind):
            return make
    raise UnsupportedError(
        f"datagen makes no values of the type {kind} (column '{name}').",
        hint="Leave the column out and compute it in a view: SELECT …, named_struct(…) FROM t.",
    )


def _integers(kind: pa.DataType, rule: FieldRule, rows: _Rows) -> pa.Array:
    bounds = np.iinfo(kind.to_pandas_dtype())
    low = int(bounds.min if rule.low is None else rule.low)
    high = int(bounds.max if rule.high is None else rule.high)
    span = high - low + 1
    bits = rows.bits()
    drawn = bits if span >= 2**64 else bits % np.uint64(span)
    with np.errstate(over="ignore"):
        values = (drawn + np.uint64(low % 2**64)).astype(np.int64)
    return pa.array(values, pa.int64()).cast(kind)


def _floats(kind: pa.DataType, rule: FieldRule, rows: _Rows) -> pa.Array:
    low = 0.0 if rule.low is None else rule.low
    high = 1.0 if rule.high is None else rule.high
    return pa.array(low + _fractions(rows.bits()) * (high - low), pa.float64()).cast(kind)


def _booleans(_kind: pa.DataType, _rule: FieldRule, rows: _Rows) -> pa.Array:
    return pa.array((rows.bits() & np.uint64(1)).astype(bool))


def _strings(_kind: pa.DataType, rule: FieldRule, rows: _Rows) -> pa.Array:
    return _texts(rule, rows, pa.string())


def _binaries(_kind: pa.DataType, rule: FieldRule, rows: _Rows) -> pa.Array:
    return _texts(rule, rows, pa.binary())


def _texts(rule: FieldRule, rows: _Rows, kind: pa.DataType) -> pa.Array:
    """Hexadecimal digits, as Flink's generator makes them; all rows in one buffer."""
    length = 100 if rule.length is None else rule.length
    count = len(rows.numbers)
    words = (length + 15) // 16
    digits = np.empty((count, words * 16), dtype=np.uint8)
    for word in range(words):
        bits = rows.bits(part=word + 1)
        for digit in range(16):
            four = (bits >> np.uint64(4 * digit)) & np.uint64(15)
            digits[:, word * 16 + digit] = _HEX[four.astype(np.int64)]
    lengths = np.full(count, length, dtype=np.int64)
    if rule.varies and length:
        lengths = (rows.bits() % np.uint64(length)).astype(np.int64) + 1
    kept = digits[:, :length][np.arange(length) < lengths[:, None]]
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(kept))]
    return pa.Array.from_buffers(kind, count, buffers)


def _decimals(kind: pa.DataType, rule: FieldRule, rows: _Rows) -> pa.Array:
    scale = 10**kind.scale
    largest = 10 ** min(kind.precision, _DIGITS_MAX) - 1
    low = -largest if rule.low is None else round(Decimal(str(rule.low)) * scale)
    high = largest if rule.high is None else round(Decimal(str(rule.high)) * scale)
    whole = _integers(pa.int64(), FieldRule(low=max(low, -largest), high=min(high, largest)), rows)
    return _rescaled(whole, kind)


def _rescaled(whole: pa.Array, kind: pa.DataType) -> pa.Array:
    """Read whole numbers as decimals with the digits of a type, without dividing."""
    wide = whole.cast(pa.decimal128(38, 0))
    return pa.Array.from_buffers(kind, len(wide), wide.buffers(), offset=wide.offset)


def _moments_ms(rule: FieldRule, rows: _Rows) -> Numbers:
    """When each row is made, at most some time back, in milliseconds since 1970."""
    made = rows.times.begin_ms + rows.numbers * 1000 // rows.times.rows_per_second
    if not rule.past_ms:
        return made
    return made - (rows.bits() % np.uint64(rule.past_ms)).astype(np.int64)


def _timestamps(kind: pa.DataType, rule: FieldRule, rows: _Rows) -> pa.Array:
    millis = pa.array(_moments_ms(rule, rows), pa.int64())
    return millis.cast(pa.timestamp("ms", kind.tz)).cast(kind)


def _dates(kind: pa.DataType, rule: FieldRule, rows: _Rows) -> pa.Array:
    days = (_moments_ms(rule, rows) // _MILLIS_PER_DAY).astype(np.int32)
    return pa.array(days, pa.int32()).cast(pa.date32()).cast(kind)


def _day_times(kind: pa.DataType, rule: FieldRule, rows: _Rows) -> pa.Array:
    millis = (_moments_ms(rule, rows) % _MILLIS_PER_DAY).astype(np.int32)
    return pa.array(millis, pa.int32()).cast(pa.time32("ms")).cast(kind)


def _sequence(name: str, kind: pa.DataType, rule: FieldRule, numbers: Numbers) -> pa.Array:
    assert rule.start is not None
    values = pa.array(numbers + rule.start, pa.int64())
    if pa.types.is_decimal(kind):
        return values.cast(pa.decimal128(19, 0)).cast(kind)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind)):
        raise InvalidOptionError(
            f"The column '{name}' is {kind}, which cannot be a sequence.",
            hint=f"Use 'fields.{name}.kind' = 'random', or make it a number or STRING.",
        )
    return values.cast(kind)
