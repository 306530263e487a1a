"""Encodings of single values: numbers, instants of two numbers, and byte strings."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptBatchError, InvalidValueError
from headwater.rows import row_bytes

# Where values come from, for error messages.

_HINT = "The client that wrote the rows is faulty; check that it uses the table's schema."


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The field and the rows that values come from."""

    field: str
    rows: row_bytes.Longs | None = None

    def refuse(self, bad: row_bytes.Mask | None, why: str) -> None:
        """Raise if any value is bad, naming the first."""
        if bad is not None and np.count_nonzero(bad):
            raise self.error(int(np.argmax(bad)), why)

    def refuse_nulls(self, nulls: row_bytes.Mask | None) -> None:
        """Raise if any value is null, naming the first."""
        if nulls is not None and np.count_nonzero(nulls):
            row = self._row(int(np.argmax(nulls)))
            raise InvalidValueError(
                f"Row {row} is invalid: {self.field} is null, but it is declared NOT NULL.",
                hint="Set the column in every row, or make it nullable.",
            )

    def error(self, index: int, why: str) -> CorruptBatchError:
        """Make the error for one bad value."""
        message = f"Row {self._row(index)} is malformed: {self.field} {why}."
        return CorruptBatchError(message, hint=_HINT)

    def _row(self, index: int) -> int:
        return index if self.rows is None else int(self.rows[index])

    def picked(self, indices: row_bytes.Longs) -> "Origin":
        """Narrow the origin to some of the values, or to values that belong to them."""
        return Origin(self.field, indices if self.rows is None else self.rows[indices])

    def named(self, field: str) -> "Origin":
        """Name another field of the same rows."""
        return Origin(field, self.rows)


# The three encodings.

Numbers = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class NumberForm(ABC):
    """A number, of fixed width in array slots; rows may store it as a varint."""

    arrow: pa.DataType
    dtype: np.dtype[np.generic]
    is_packed: bool

    @abstractmethod
    def from_numbers(self, numbers: Numbers, origin: Origin, /) -> pa.Array:
        """Build an array from numbers."""

    @abstractmethod
    def to_numbers(self, array: pa.Array) -> Numbers:
        """Extract the numbers of an array; those of nulls may be anything."""


@dataclass(frozen=True, slots=True)
class InstantForm(ABC):
    """Milliseconds, followed by nanoseconds."""

    arrow: pa.DataType

    @abstractmethod
    def join(self, millis: row_bytes.Longs, nanos: row_bytes.Longs, origin: Origin, /) -> pa.Array:
        """Build an array from instants."""

    @abstractmethod
    def split(self, array: pa.Array) -> tuple[row_bytes.Longs, row_bytes.Longs]:
        """Extract milliseconds and nanoseconds; those of nulls may be anything."""


@dataclass(frozen=True, slots=True)
class SpanForm(ABC):
    """A byte string: rows store it after its length, slots point to it.

    Array slots contain short strings themselves if they are inlined. For other strings an array
    reserves `reserved` bytes, or as many as the string takes if that is 0.
    """

    arrow: pa.DataType
    is_inlined: bool
    reserved_bytes: int

    @abstractmethod
    def from_spans(self, spans: row_bytes.RowBytes, origin: Origin, /) -> pa.Array:
        """Build an array from strings."""

    @abstractmethod
    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Extract the strings of an array; those of nulls are null or empty."""


Form = NumberForm | InstantForm | SpanForm


# Numbers and instants.

MILLIS_PER_DAY = 86_400_000
NANOS_PER_MILLI = 1_000_000
_MILLIS_PER_SECOND = 1_000
_HALVES = np.dtype((np.void, 16))
_LONG = np.iinfo(np.int64)
_MILLIS_MIN = -(int(_LONG.max) // _MILLIS_PER_SECOND) * _MILLIS_PER_SECOND
# Units per millisecond; for seconds it is the inverse.
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": NANOS_PER_MILLI}


@dataclass(frozen=True, slots=True)
class Plain(NumberForm):
    """Numbers that Arrow stores as they are."""

    def from_numbers(self, numbers: Numbers, _origin: Origin, /) -> pa.Array:
        """Build an array over the numbers."""
        return array_of(self.arrow, numbers)

    def to_numbers(self, array: pa.Array) -> Numbers:
        """View the numbers of an array."""
        return _numbers_of(array, self.dtype)


@dataclass(frozen=True, slots=True)
class Flag(NumberForm):
    """True and false, a byte each."""

    def from_numbers(self, numbers: Numbers, _origin: Origin, /) -> pa.Array:
        """Build booleans from bytes; any byte but 0 is true."""
        return pa.array(numbers != 0, pa.bool_())

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Extract a byte for each element."""
        flags = array.fill_null(False) if array.null_count else array
        return flags.to_numpy(zero_copy_only=False).view(np.uint8)


@dataclass(frozen=True, slots=True)
class TimeOfDay(NumberForm):
    """Times as milliseconds of the day, whatever the unit of the column."""

    def from_numbers(self, numbers: Numbers, origin: Origin, /) -> pa.Array:
        """Build times from milliseconds."""
        millis: npt.NDArray[np.int32] = numbers.astype(np.int32, copy=False)
        origin.refuse((millis < 0) | (millis >= MILLIS_PER_DAY), "is not a time of day")
        if pa.types.is_time32(self.arrow):
            return array_of(self.arrow, _from_millis(millis, self.arrow.unit))
        return array_of(self.arrow, _from_millis(millis.astype(np.int64), self.arrow.unit))

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Extract milliseconds, truncating finer digits."""
        kind = np.int32 if pa.types.is_time32(self.arrow) else np.int64
        values = _numbers_of(array, np.dtype(kind)).astype(np.int64)
        return _to_millis(values, self.arrow.unit).astype(np.int32)


@dataclass(frozen=True, slots=True)
class CoarseTimestamp(NumberForm):
    """Timestamps of at most three digits as milliseconds."""

    def from_numbers(self, numbers: Numbers, origin: Origin, /) -> pa.Array:
        """Build timestamps from milliseconds."""
        millis = numbers.astype(np.int64, copy=False)
        if self.arrow.unit == "s":
            # The first second in range has only some of its milliseconds.
            origin.refuse(millis < _MILLIS_MIN, "is out of range")
        return array_of(self.arrow, _from_millis(millis, self.arrow.unit))

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Extract milliseconds; out of range is an error."""
        values = _numbers_of(array, np.dtype(np.int64)).astype(np.int64, copy=False)
        millis = _to_millis(values, self.arrow.unit)
        # Seconds reach a thousand times further than milliseconds.
        is_far = millis // _MILLIS_PER_SECOND != values if self.arrow.unit == "s" else None
        if is_far is not None and (is_far & ~row_bytes.nulls_of(array)).any():
            raise CorruptBatchError("A timestamp is out of the range of milliseconds.")
        return millis


@dataclass(frozen=True, slots=True)
class FineTimestamp(InstantForm):
    """Timestamps of more than three digits as milliseconds and nanoseconds."""

    def join(self, millis: row_bytes.Longs, nanos: row_bytes.Longs, origin: Origin, /) -> pa.Array:
        """Build timestamps from milliseconds and nanoseconds."""
        origin.refuse(
            (nanos < 0) | (nanos >= NANOS_PER_MILLI), "has more nanoseconds than a millisecond"
        )
        per_milli = _PER_MILLI[self.arrow.unit]
        values = millis * per_milli
        values += nanos // (NANOS_PER_MILLI // per_milli)
        reach = _LONG.max // per_milli - 1
        if len(millis) and (millis.min() < -reach or millis.max() > reach):
            # Products that overflow wrap around, and do not convert back.
            origin.refuse(values // per_milli != millis, "is out of range")
        return array_of(self.arrow, values)

    def split(self, array: pa.Array) -> tuple[row_bytes.Longs, row_bytes.Longs]:
        """Extract milliseconds and nanoseconds."""
        values = _numbers_of(array, np.dtype(np.int64)).astype(np.int64, copy=False)
        per_milli = _PER_MILLI[self.arrow.unit]
        millis = values // per_milli
        return millis, (values - millis * per_milli) * (NANOS_PER_MILLI // per_milli)


@dataclass(frozen=True, slots=True)
class SmallDecimal(NumberForm):
    """Decimals of at most 18 digits as one number."""

    def from_numbers(self, numbers: Numbers, origin: Origin, /) -> pa.Array:
        """Build decimals from unscaled numbers."""
        unscaled = numbers.astype(np.int64, copy=False)
        top = 10**self.arrow.precision
        origin.refuse((unscaled <= -top) | (unscaled >= top), "has too many digits")
        wide = np.empty((len(unscaled), 2), np.int64)
        wide[:, 0] = unscaled
        wide[:, 1] = unscaled >> 63
        return array_of(self.arrow, wide)

    def to_numbers(self, array: pa.Array) -> Numbers:
        """Extract the unscaled numbers."""
        return decimal_halves(array)[:, 0]


def array_of(arrow: pa.DataType, numbers: Numbers) -> pa.Array:
    """Wrap numbers in an array without copying."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(arrow, len(numbers), buffers)


def decimal_halves(array: pa.Array) -> npt.NDArray[np.int64]:
    """View the low and the high word of each decimal."""
    return _numbers_of(array, _HALVES).view(np.int64).reshape(-1, 2)


def _numbers_of(array: pa.Array, dtype: np.dtype[np.generic]) -> Numbers:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype)
    # Counted, since the one buffer behind an array of nulls is not a whole number of elements.
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def _from_millis(millis: Numbers, unit: str) -> Numbers:
    if unit == "s":
        return np.floor_divide(millis, _MILLIS_PER_SECOND)
    return millis if unit == "ms" else np.multiply(millis, _PER_MILLI[unit])


def _to_millis(values: row_bytes.Longs, unit: str) -> row_bytes.Longs:
    if unit == "s":
        return values * _MILLIS_PER_SECOND
    return values if unit == "ms" else values // _PER_MILLI[unit]


# Byte strings: text, bytes and decimals of many digits.

DECIMAL_BYTES = 16
_WORD_BYTES = 8
_WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class Text(SpanForm):
    """Text of any length."""

    def from_spans(self, spans: row_bytes.RowBytes, origin: Origin, /) -> pa.Array:
        """Build text; invalid UTF-8 is an error."""
        try:
            return spans.to_arrow().cast(pa.string())
        except pa.ArrowInvalid:
            index = next(i for i, each in enumerate(spans.to_list()) if not _is_text(each))
            raise origin.error(index, "contains invalid UTF-8") from None

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Extract the UTF-8 bytes."""
        return array.cast(pa.binary())


@dataclass(frozen=True, slots=True)
class AnyBytes(SpanForm):
    """Bytes of any length."""

    def from_spans(self, spans: row_bytes.RowBytes, _origin: Origin, /) -> pa.Array:
        """Build bytes as they are."""
        return spans.to_arrow()

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Extract bytes as they are."""
        return array


@dataclass(frozen=True, slots=True)
class FixedBytes(SpanForm):
    """A fixed number of bytes."""

    def from_spans(self, spans: row_bytes.RowBytes, origin: Origin, /) -> pa.Array:
        """Build fixed-size bytes; another length is an error."""
        length = self.arrow.byte_width
        origin.refuse(spans.lengths != length, f"does not have {length} bytes")
        if not len(spans):
            return pa.array([], self.arrow)
        shape = (len(spans.data) - length + 1, length)
        windows = np.ndarray(shape, np.uint8, spans.data, strides=(1, 1))
        return array_of(self.arrow, windows[spans.starts])

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Extract bytes as they are."""
        return array.cast(pa.binary())


@dataclass(frozen=True, slots=True)
class LargeDecimal(SpanForm):
    """Decimals of more than 18 digits as the fewest big-endian bytes that keep the sign."""

    def from_spans(self, spans: row_bytes.RowBytes, origin: Origin, /) -> pa.Array:
        """Build decimals from big-endian bytes."""
        lengths = spans.lengths
        origin.refuse(
            (lengths < 1) | (lengths > DECIMAL_BYTES), "has an invalid size for a decimal"
        )
        array = array_of(self.arrow, _widened(spans, lengths))
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            is_large = [_magnitude(each) >= 10**self.arrow.precision for each in spans.to_list()]
            raise origin.error(is_large.index(True), "has too many digits") from None
        return array

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Extract the fewest bytes of each decimal."""
        big_endian = np.ascontiguousarray(decimal_halves(array)).view(np.uint8)[:, ::-1]
        kept = np.arange(DECIMAL_BYTES) >= _redundant_bytes(big_endian)[:, None]
        if array.null_count:
            kept[row_bytes.nulls_of(array)] = False
        offsets = row_bytes.starts_of(np.count_nonzero(kept, axis=1)).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(big_endian[kept])]
        return pa.Array.from_buffers(pa.binary(), len(array), buffers)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _magnitude(value: bytes) -> int:
    return abs(int.from_bytes(value, "big", signed=True))


def _widened(spans: row_bytes.RowBytes, lengths: row_bytes.Longs) -> npt.NDArray[np.int64]:
    """Split numbers into a low and a high word; the first byte has the sign."""
    words = row_bytes.overlapping_words(spans.data)
    high = _big_endian(words, spans.starts).view(np.int64)
    low = _big_endian(words, spans.starts + _WORD_BYTES)
    surplus = _WORD_BITS * 2 - lengths * 8
    is_short = surplus >= _WORD_BITS
    low = np.where(is_short, high.view(np.uint64), low)
    high = np.where(is_short, high >> 63, high)
    shift = np.where(is_short, surplus - _WORD_BITS, surplus)
    # Bits that leave the high word enter the low one; in two steps, since a shift by 64 is
    # undefined.
    entering = high.view(np.uint64) << (63 - shift).view(np.uint64) << np.uint64(1)
    halves = np.empty((len(spans), 2), np.int64)
    halves[:, 0] = (low >> shift.view(np.uint64) | entering).view(np.int64)
    halves[:, 1] = high >> shift
    return halves


def _big_endian(words: row_bytes.Words, at: row_bytes.Longs) -> row_bytes.Words:
    return words[at].byteswap()


def _redundant_bytes(big_endian: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Count the leading bytes that only repeat the sign of the byte after them."""
    signs = np.where(big_endian >= 0x80, 0xFF, 0).astype(np.uint8)  # noqa: PLR2004
    repeats = big_endian[:, :-1] == signs[:, 1:]
    return np.logical_and.accumulate(repeats, axis=1).sum(axis=1)
