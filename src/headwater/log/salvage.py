"""Look for whole batches behind bytes that are bad."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headwater.errors import CorruptBatchError
from headwater.rows.log_batch import HEADER_BYTES, BatchHeader, check_crc, read_header

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
_OFFSETS_AHEAD_MAX = 1 << 40
_LENGTH_AT, _MAGIC_AT, _DELTA_AT, _COUNT_AT = 8, 12, 28, 44
# A batch without records is a header and perhaps the length of no statistics. Where this is not
# asked, every number of a column of 64 bits looks like such a header.
_EMPTY_LENGTH_MAX = HEADER_BYTES - _MAGIC_AT + 4
# A search looks at few bytes first, since the next batch is mostly near.
_WINDOW_BYTES_MIN = 1 << 12
_WINDOW_BYTES_MAX = 1 << 18


def last_offset_seen(data: bytes, *, offset: int) -> int | None:
    """Return the end offset of the last batch in `data`, or None without any whole one.

    `data` starts with bad bytes at `offset`. A batch that directly follows a whole one counts
    even if it is bad itself, since its offsets may have been given out.
    """
    seen: int | None = None
    position = 1
    while (found := _next_whole(data, position, offset)) is not None:
        at, first = found
        position, offset = _end_of_run(data, at, first)
        follower = _following(data, position, offset)
        seen = offset if follower is None else follower.end_offset
    return seen


def _end_of_run(data: bytes, position: int, header: BatchHeader) -> tuple[int, int]:
    """Return position and offset behind a whole batch and those that follow, as far as whole."""
    position, offset = position + header.size, header.end_offset
    following = _following(data, position, offset)
    while following is not None and _is_whole(data, position, following):
        position, offset = position + following.size, following.end_offset
        following = _following(data, position, offset)
    return position, offset


def _following(data: bytes, position: int, offset: int) -> BatchHeader | None:
    """Return the header at a position if it goes on at an offset."""
    header = _plausible(data, position)
    return header if header is not None and header.base_offset == offset else None


def _next_whole(data: bytes, start: int, offset: int) -> tuple[int, BatchHeader] | None:
    for position in _candidates(data, start):
        header = _plausible(data, position)
        if header is None or not offset <= header.base_offset < offset + _OFFSETS_AHEAD_MAX:
            continue
        if _is_whole(data, position, header):
            return position, header
    return None


def _candidates(data: bytes, start: int) -> Iterator[int]:
    """Yield the positions at which the fixed relations of a header hold."""
    whole, width = np.frombuffer(data, dtype=np.uint8), _WINDOW_BYTES_MIN
    while start + HEADER_BYTES <= len(data):
        window = whole[start : start + width + HEADER_BYTES - 1]
        for position in _fitting(window, room=len(data) - start):
            yield start + int(position)
        start += width
        width = min(2 * width, _WINDOW_BYTES_MAX)


def _fitting(array: Bytes, *, room: int) -> Integers:
    """Return where in a window a header may begin whose batch fits into the room there is."""
    count = len(array) - HEADER_BYTES + 1
    length = _integers(array, _LENGTH_AT, count)
    records = _integers(array, _COUNT_AT, count)
    delta = _integers(array, _DELTA_AT, count)
    fits = (array[_MAGIC_AT : _MAGIC_AT + count] <= 1) & (length >= HEADER_BYTES - _MAGIC_AT)
    fits &= (length + _MAGIC_AT <= room - np.arange(count)) & (records >= 0)
    fits &= delta == np.maximum(records - 1, 0)
    fits &= (records > 0) | (length <= _EMPTY_LENGTH_MAX)
    return np.flatnonzero(fits)


def _integers(array: Bytes, at: int, count: int) -> Integers:
    """Return the little-endian 32-bit integers that start at every byte."""
    value = np.zeros(count, dtype=np.int64)
    for byte in range(4):
        value |= array[at + byte : at + byte + count].astype(np.int64) << (8 * byte)
    return value.astype(np.uint32).astype(np.int32).astype(np.int64)


def _plausible(data: bytes, position: int) -> BatchHeader | None:
    try:
        return read_header(data, position)
    except CorruptBatchError:
        return None


def _is_whole(data: bytes, position: int, header: BatchHeader) -> bool:
    try:
        check_crc(memoryview(data)[position : position + header.size], header)
    except CorruptBatchError:
        return False
    return position + header.size <= len(data)
