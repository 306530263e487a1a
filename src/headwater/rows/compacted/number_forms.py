"""Values that are one number, or an instant of two, in bytes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptBatchError
from headwater.rows.compacted.forms import InstantForm, NumberForm, Numbers
from headwater.rows.compacted.origin import Origin
from headwater.rows.row_bytes import Longs, nulls_of

MILLIS_PER_DAY = 86_400_000
NANOS_PER_MILLI = 1_000_000
_MILLIS_PER_SECOND = 1_000
_HALVES = np.dtype((np.void, 16))
_LONG = np.iinfo(np.int64)
_MILLIS_MIN = -(int(_LONG.max) // _MILLIS_PER_SECOND) * _MILLIS_PER_SECOND
# How many of a unit a millisecond has; a second is the other way round.
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": NANOS_PER_MILLI}


@dataclass(frozen=True, slots=True)
class Plain(NumberForm):
    """Hold numbers that Arrow keeps as they are."""

    def from_numbers(self, numbers: Numbers, _origin: Origin, /) -> pa.Array:
        """Return the array for these numbers."""
        return array_of(self.arrow, numbers)

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Return the numbers of an array."""
        return _numbers_of(array, self.dtype)


@dataclass(frozen=True, slots=True)
class Flag(NumberForm):
    """Hold true and false, a byte each."""

    def from_numbers(self, numbers: Numbers, _origin: Origin, /) -> pa.Array:
        """Return the array for these bytes, of which any but 0 is true."""
        return pa.array(numbers != 0, pa.bool_())

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Return a byte for each element."""
        flags = array.fill_null(False) if array.null_count else array
        return flags.to_numpy(zero_copy_only=False).view(np.uint8)


@dataclass(frozen=True, slots=True)
class TimeOfDay(NumberForm):
    """Hold times as milliseconds of the day, whatever the unit of the column."""

    def from_numbers(self, numbers: Numbers, origin: Origin, /) -> pa.Array:
        """Return the array for these milliseconds."""
        millis: npt.NDArray[np.int32] = numbers.astype(np.int32, copy=False)
        origin.refuse((millis < 0) | (millis >= MILLIS_PER_DAY), "is not a time of day")
        if pa.types.is_time32(self.arrow):
            return array_of(self.arrow, _from_millis(millis, self.arrow.unit))
        return array_of(self.arrow, _from_millis(millis.astype(np.int64), self.arrow.unit))

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Return the milliseconds of an array, leaving off what is finer."""
        kind = np.int32 if pa.types.is_time32(self.arrow) else np.int64
        values = _numbers_of(array, np.dtype(kind)).astype(np.int64)
        return _to_millis(values, self.arrow.unit).astype(np.int32)


@dataclass(frozen=True, slots=True)
class CoarseTimestamp(NumberForm):
    """Hold timestamps of at most three digits as milliseconds."""

    def from_numbers(self, numbers: Numbers, origin: Origin, /) -> pa.Array:
        """Return the array for these milliseconds."""
        millis = numbers.astype(np.int64, copy=False)
        if self.arrow.unit == "s":
            # The first second that has any milliseconds has not all of them.
            origin.refuse(millis < _MILLIS_MIN, "is out of range")
        return array_of(self.arrow, _from_millis(millis, self.arrow.unit))

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Return the milliseconds of an array."""
        values = _numbers_of(array, np.dtype(np.int64)).astype(np.int64, copy=False)
        millis = _to_millis(values, self.arrow.unit)
        # Seconds reach a thousand times further than milliseconds.
        is_far = millis // _MILLIS_PER_SECOND != values if self.arrow.unit == "s" else None
        if is_far is not None and (is_far & ~nulls_of(array)).any():
            raise CorruptBatchError("A timestamp is too far away to be kept in milliseconds.")
        return millis


@dataclass(frozen=True, slots=True)
class FineTimestamp(InstantForm):
    """Hold timestamps of more than three digits as milliseconds and nanoseconds."""

    def join(self, millis: Longs, nanos: Longs, origin: Origin, /) -> pa.Array:
        """Return the array for these instants."""
        origin.refuse(
            (nanos < 0) | (nanos >= NANOS_PER_MILLI), "has nanoseconds that make a millisecond"
        )
        per_milli = _PER_MILLI[self.arrow.unit]
        values = millis * per_milli
        values += nanos // (NANOS_PER_MILLI // per_milli)
        reach = _LONG.max // per_milli - 1
        if len(millis) and (millis.min() < -reach or millis.max() > reach):
            # Far away products wrap around, and do not lead back.
            origin.refuse(values // per_milli != millis, "is out of range")
        return array_of(self.arrow, values)

    def split(self, array: pa.Array) -> tuple[Longs, Longs]:
        """Return milliseconds and nanoseconds of an array."""
        values = _numbers_of(array, np.dtype(np.int64)).astype(np.int64, copy=False)
        per_milli = _PER_MILLI[self.arrow.unit]
        millis = values // per_milli
        return millis, (values - millis * per_milli) * (NANOS_PER_MILLI // per_milli)


@dataclass(frozen=True, slots=True)
class SmallDecimal(NumberForm):
    """Hold decimals of at most 18 digits as one number."""

    def from_numbers(self, numbers: Numbers, origin: Origin, /) -> pa.Array:
        """Return the array for these unscaled numbers."""
        unscaled = numbers.astype(np.int64, copy=False)
        top = 10**self.arrow.precision
        origin.refuse((unscaled <= -top) | (unscaled >= top), "has too many digits")
        wide = np.empty((len(unscaled), 2), np.int64)
        wide[:, 0] = unscaled
        wide[:, 1] = unscaled >> 63
        return array_of(self.arrow, wide)

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Return the unscaled numbers of an array."""
        return decimal_halves(array)[:, 0]


def array_of(arrow: pa.DataType, numbers: Numbers) -> pa.Array:
    """Return an array over numbers, which are not copied."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(arrow, len(numbers), buffers)


def decimal_halves(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the low and the high word of each decimal."""
    return _numbers_of(array, _HALVES).view(np.int64).reshape(-1, 2)


def _numbers_of(array: pa.Array, dtype: np.dtype[np.generic]) -> Numbers:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype)
    # Counted, as the one buffer behind an array of nulls has no whole number of elements.
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def _from_millis(millis: Numbers, unit: str) -> Numbers:
    if unit == "s":
        return np.floor_divide(millis, _MILLIS_PER_SECOND)
    return millis if unit == "ms" else np.multiply(millis, _PER_MILLI[unit])


def _to_millis(values: Longs, unit: str) -> Longs:
    if unit == "s":
        return values * _MILLIS_PER_SECOND
    return values if unit == "ms" else values // _PER_MILLI[unit]
