"""Byte strings anywhere in one buffer: rows, keys and the values inside them.

Also chains of records that each say where the next one starts, and the checksum CRC-32C.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Numbers are little endian, like every supported machine.

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

PADDING = 16
"""Bytes that may be read after the last string, so that readers can load whole words."""

_INLINE_BYTES_MAX = 12
_WORD_BYTES = 8
_OFFSET_BYTES = 4
_FEW = 4
_WORD = np.dtype(np.uint64)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFF_FFFF)
# A view has an offset of 31 bits; overlapping windows let it reach into any buffer.
_WINDOW_BITS = 30


@dataclass(frozen=True, slots=True, eq=False)
class RowBytes:
    """Byte strings anywhere in one buffer."""

    data: Bytes
    starts: Longs
    ends: Longs

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Longs:
        """The length of each string."""
        return self.ends - self.starts

    def take(self, indices: Longs | Mask) -> "RowBytes":
        """Select strings by position, over the same buffer."""
        return RowBytes(self.data, self.starts[indices], self.ends[indices])

    def to_list(self) -> list[bytes]:
        """Return a copy of each string."""
        pairs = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.data[start:end].tobytes() for start, end in pairs]

    @classmethod
    def of(cls, values: Sequence[bytes]) -> "RowBytes":
        """Concatenate strings."""
        places = starts_of(np.array([len(value) for value in values], np.int64))
        data = np.frombuffer(b"".join((*values, bytes(PADDING))), np.uint8)
        return cls(data, places[:-1], places[1:])

    @classmethod
    def joined(cls, parts: Sequence["RowBytes"]) -> "RowBytes":
        """Concatenate the strings of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of(())
        shifts = starts_of(np.array([len(part.data) for part in parts], np.int64)).tolist()
        return cls(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.starts + by for part, by in zip(parts, shifts, strict=False)]),
            np.concatenate([part.ends + by for part, by in zip(parts, shifts, strict=False)]),
        )

    @classmethod
    def from_arrow(cls, array: pa.BinaryArray) -> "RowBytes":
        """Copy the strings of an Arrow array; a null becomes empty."""
        if not len(array):
            return cls.of(())
        _, offset_buffer, data_buffer = array.buffers()
        offsets = np.frombuffer(
            offset_buffer, np.int32, len(array) + 1, array.offset * _OFFSET_BYTES
        )
        low, high = int(offsets[0]), int(offsets[-1])
        data = np.zeros(high - low + PADDING, np.uint8)
        if high > low:
            data[: high - low] = np.frombuffer(data_buffer, np.uint8)[low:high]
        places = offsets.astype(np.int64) - low
        ends = places[1:]
        if array.null_count:
            ends = np.where(nulls_of(array), places[:-1], ends)
        return cls(data, places[:-1], ends)

    def to_arrow(self) -> pa.BinaryArray:
        """Copy the strings one after the other into an Arrow array."""
        if len(self) <= _FEW:
            return pa.array(self.to_list(), pa.binary())
        views = np.empty((len(self), 2), np.uint64)
        lengths = self.lengths
        window_ids = self.starts >> _WINDOW_BITS
        places = self.starts - (window_ids << _WINDOW_BITS)
        views[:, 0] = lengths.view(np.uint64)
        views[:, 1] = (window_ids | places << 32).view(np.uint64)
        self._put_short(views, np.flatnonzero(lengths <= _INLINE_BYTES_MAX))
        buffers = [None, pa.py_buffer(views), *self._windows()]
        return pa.Array.from_buffers(pa.binary_view(), len(self), buffers).cast(pa.binary())

    def _put_short(self, views: Words, short: Longs) -> None:
        """Move short strings into their view, where Arrow expects them."""
        if not len(short):
            return
        words, starts = overlapping_words(self.data), self.starts[short]
        first, second = words[starts], words[starts + _WORD_BYTES]
        views[short, 0] |= first << _HALF
        views[short, 1] = first >> _HALF | second << _HALF

    def _windows(self) -> list[pa.Buffer]:
        buffer, step = pa.py_buffer(self.data), 1 << _WINDOW_BITS
        return [
            buffer.slice(start, min(2 * step, len(self.data) - start))
            for start in range(0, max(len(self.data), 1), step)
        ]


def overlapping(data: Bytes, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """View a buffer so that element `i` is the number that starts at byte `i`."""
    kind = np.dtype(dtype)
    return np.ndarray((len(data) - kind.itemsize + 1,), kind, data, strides=(1,))


def overlapping_words(data: Bytes) -> Words:
    """View a buffer so that element `i` is the 8-byte word that starts at byte `i`."""
    return np.ndarray((len(data) - _WORD_BYTES + 1,), _WORD, data, strides=(1,))


def nulls_of(array: pa.Array) -> Mask:
    """Make a mask of the nulls of an array."""
    nulls: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def starts_of(lengths: Longs | Bytes) -> Longs:
    """Compute where each of these lengths starts when they follow each other, and the end."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=starts[1:])
    return starts


# Chains of records that each say where the next one starts, found together instead of one by one.

_SWEEPS_MAX = 8


def follow_chain(places: Longs, nexts: Longs, *, start: int, end: int) -> Longs | None:
    """Find which of these places are on the chain that leads from `start` to `end`.

    `places` are all positions, in order, that may start a record, and `nexts` says where that
    record would end, always further on. Bytes inside of a record that look like the start of one
    are removed, since hardly ever does another point to them. If there are too many of these, or
    the chain is broken, the result is None, and the records have to be walked.
    """
    kept = np.arange(len(places))
    for _ in range(_SWEEPS_MAX):
        if _is_whole(places[kept], nexts[kept], start=start, end=end):
            return kept
        is_target = np.zeros(end + 1, np.bool_)
        is_target[nexts[kept]] = True
        is_target[start] = True
        kept = kept[is_target[places[kept]]]
    return None


def _is_whole(places: Longs, nexts: Longs, *, start: int, end: int) -> bool:
    """Tell whether every place is a record that leads to the next."""
    if not len(places):
        return start == end
    return bool(places[0] == start and nexts[-1] == end and np.array_equal(places[1:], nexts[:-1]))


# CRC-32C, the checksum of record batches and of our own files.


def crc32c(data: bytes | memoryview) -> int:
    """Compute the CRC-32C of contiguous bytes."""
    # google_crc32c does not accept a memoryview; an Arrow buffer shares its bytes without a copy.
    return int(google_crc32c.value(data if isinstance(data, bytes) else pa.py_buffer(data)))


def crc32c_of_parts(parts: Iterable[bytes | memoryview]) -> int:
    """Compute the CRC-32C of the parts as if they were joined."""
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, part if isinstance(part, bytes) else pa.py_buffer(part))
    return int(crc)
