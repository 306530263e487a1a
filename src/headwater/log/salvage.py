"""Look for whole batches behind bytes that are bad."""

import numpy as np
from numpy.typing import NDArray

from headwater.errors import CorruptBatchError
from headwater.rows.log_batch import HEADER_BYTES, BatchHeader, check_crc, read_header

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
_OFFSETS_AHEAD_MAX = 1 << 40
_LENGTH_AT, _MAGIC_AT, _DELTA_AT, _COUNT_AT = 8, 12, 28, 44


def last_offset_seen(data: bytes, *, offset: int) -> int | None:
    """Return the end offset of the last batch in `data`, or None without any whole one.

    `data` starts with bad bytes at `offset`. A batch that directly follows a whole one counts
    even if it is bad itself, since its offsets may have been given out.
    """
    seen: int | None = None
    position = 1
    while (found := _next_whole(data, position, offset)) is not None:
        position, header = found
        seen = offset = header.end_offset
        position += header.size
        follower = _plausible(data, position)
        if follower is not None and follower.base_offset == offset:
            seen = follower.end_offset
    return seen


def _next_whole(data: bytes, start: int, offset: int) -> tuple[int, BatchHeader] | None:
    for position in _candidates(data, start):
        header = _plausible(data, position)
        if header is None or not offset <= header.base_offset < offset + _OFFSETS_AHEAD_MAX:
            continue
        if _is_whole(data, position, header):
            return position, header
    return None


def _candidates(data: bytes, start: int) -> list[int]:
    """Return the positions at which the fixed relations of a header hold."""
    count = len(data) - start - HEADER_BYTES + 1
    if count <= 0:
        return []
    array = np.frombuffer(data, dtype=np.uint8)[start:]
    length = _integers(array, _LENGTH_AT, count)
    records = _integers(array, _COUNT_AT, count)
    delta = _integers(array, _DELTA_AT, count)
    room = np.arange(len(array), len(array) - count, -1)
    fits = (array[_MAGIC_AT : _MAGIC_AT + count] <= 1) & (length >= HEADER_BYTES - _MAGIC_AT)
    fits &= (length + _MAGIC_AT <= room) & (records >= 0)
    fits &= delta == np.maximum(records - 1, 0)
    return [start + int(position) for position in np.flatnonzero(fits)]


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
        check_crc(data[position : position + header.size], header)
    except CorruptBatchError:
        return False
    return position + header.size <= len(data)
