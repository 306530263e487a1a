"""Values that are a string of bytes: text, bytes and decimals of many digits."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.rows.compacted.forms import SpanForm
from headwater.rows.compacted.number_forms import array_of, decimal_halves
from headwater.rows.compacted.origin import Origin
from headwater.rows.row_bytes import Longs, RowBytes, Words, nulls_of, overlapping_words, starts_of

DECIMAL_BYTES = 16
_WORD_BYTES = 8
_WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class Text(SpanForm):
    """Hold text of any length."""

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Return the text in these strings, which must be UTF-8."""
        try:
            return spans.to_arrow().cast(pa.string())
        except pa.ArrowInvalid:
            index = next(i for i, each in enumerate(spans.to_list()) if not _is_text(each))
            raise origin.error(index, "is not UTF-8") from None

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Return the bytes of the text."""
        return array.cast(pa.binary())


@dataclass(frozen=True, slots=True)
class AnyBytes(SpanForm):
    """Hold bytes of any length."""

    def from_spans(self, spans: RowBytes, _origin: Origin, /) -> pa.Array:
        """Return these strings."""
        return spans.to_arrow()

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Return the strings of an array."""
        return array


@dataclass(frozen=True, slots=True)
class FixedBytes(SpanForm):
    """Hold a fixed number of bytes."""

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Return these strings, which must all have the length."""
        length = self.arrow.byte_width
        origin.refuse(spans.lengths != length, f"does not have {length} bytes")
        if not len(spans):
            return pa.array([], self.arrow)
        shape = (len(spans.data) - length + 1, length)
        windows = np.ndarray(shape, np.uint8, spans.data, strides=(1, 1))
        return array_of(self.arrow, windows[spans.starts])

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Return the strings of an array."""
        return array.cast(pa.binary())


@dataclass(frozen=True, slots=True)
class LargeDecimal(SpanForm):
    """Hold decimals of more than 18 digits as the fewest big endian bytes that keep the sign."""

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Return the decimals in these strings."""
        lengths = spans.lengths
        origin.refuse((lengths < 1) | (lengths > DECIMAL_BYTES), "has no size of a decimal")
        array = array_of(self.arrow, _widened(spans, lengths))
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            is_large = [_magnitude(each) >= 10**self.arrow.precision for each in spans.to_list()]
            raise origin.error(is_large.index(True), "has too many digits") from None
        return array

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Return the fewest bytes of each decimal."""
        big_endian = np.ascontiguousarray(decimal_halves(array)).view(np.uint8)[:, ::-1]
        kept = np.arange(DECIMAL_BYTES) >= _redundant_bytes(big_endian)[:, None]
        if array.null_count:
            kept[nulls_of(array)] = False
        offsets = starts_of(np.count_nonzero(kept, axis=1)).astype(np.int32)
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


def _widened(spans: RowBytes, lengths: Longs) -> npt.NDArray[np.int64]:
    """Return the low and the high word of numbers whose first byte holds the sign."""
    words = overlapping_words(spans.data)
    high = _big_endian(words, spans.starts).view(np.int64)
    low = _big_endian(words, spans.starts + _WORD_BYTES)
    surplus = _WORD_BITS * 2 - lengths * 8
    is_short = surplus >= _WORD_BITS
    low = np.where(is_short, high.view(np.uint64), low)
    high = np.where(is_short, high >> 63, high)
    shift = np.where(is_short, surplus - _WORD_BITS, surplus)
    # Bits that leave the high word enter the low one; two steps, as a shift by 64 is not defined.
    entering = high.view(np.uint64) << (63 - shift).view(np.uint64) << np.uint64(1)
    halves = np.empty((len(spans), 2), np.int64)
    halves[:, 0] = (low >> shift.view(np.uint64) | entering).view(np.int64)
    halves[:, 1] = high >> shift
    return halves


def _big_endian(words: Words, at: Longs) -> Words:
    return words[at].byteswap()


def _redundant_bytes(big_endian: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Count the leading bytes that only repeat the sign of the byte after them."""
    signs = np.where(big_endian >= 0x80, 0xFF, 0).astype(np.uint8)  # noqa: PLR2004
    repeats = big_endian[:, :-1] == signs[:, 1:]
    return np.logical_and.accumulate(repeats, axis=1).sum(axis=1)
