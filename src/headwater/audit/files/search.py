"""Whole batches that lie behind bad bytes, which tells damage from what a crash cut off."""

import numpy as np

from headwater.audit.files.stream import Stream
from headwater.errors import CorruptBatchError
from headwater.rows.log_batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC_STATISTICS,
    BatchHeader,
    check_crc,
    read_header,
)
from headwater.rows.row_bytes import Bytes, Longs, overlapping, overlapping_words

OFFSETS_AHEAD_MAX = 1 << 40
# A search looks at few bytes first, since the next batch is mostly near.
WINDOW_BYTES_MIN = 1 << 12
WINDOW_BYTES_MAX = 1 << 20
_LENGTH_AT, _MAGIC_AT, _DELTA_AT, _COUNT_AT = 8, 12, 28, 44


def last_end_behind(stream: Stream, *, position: int, offset: int) -> int | None:
    """Return where the last whole batch behind bad bytes ends, or None if there is none."""
    end: int | None = None
    position += 1
    while (found := _next_whole(stream, position, offset)) is not None:
        position, header = found
        while header is not None:
            end = offset = header.end_offset
            position += header.size
            # Batches mostly follow each other, and then need no search.
            header = _whole(stream, position)
    return end


def _next_whole(stream: Stream, start: int, offset: int) -> tuple[int, BatchHeader | None] | None:
    width = WINDOW_BYTES_MIN
    while start + HEADER_BYTES <= stream.size:
        data = np.frombuffer(stream.read(start, width + HEADER_BYTES - 1), np.uint8)
        for at in _candidates(data, offset).tolist():
            header = _whole(stream, start + at)
            if header is not None:
                return start + at, header
        start += width
        width = min(2 * width, WINDOW_BYTES_MAX)
    return None


def _candidates(data: Bytes, offset: int) -> Longs:
    """Return the positions at which the fixed relations of a header hold."""
    count = len(data) - HEADER_BYTES + 1
    if count <= 0:
        return np.empty(0, np.int64)
    first = overlapping_words(data)[:count]
    numbers = overlapping(data, np.int32).astype(np.int64)
    records = numbers[_COUNT_AT : _COUNT_AT + count]
    # Offsets below the wanted one wrap around and become too large.
    fits = first - np.uint64(offset) < OFFSETS_AHEAD_MAX
    fits &= numbers[_LENGTH_AT : _LENGTH_AT + count] >= HEADER_BYTES - LENGTH_END
    fits &= data[_MAGIC_AT : _MAGIC_AT + count] <= MAGIC_STATISTICS
    fits &= numbers[_DELTA_AT : _DELTA_AT + count] == np.maximum(records - 1, 0)
    return np.flatnonzero(fits)


def _whole(stream: Stream, position: int) -> BatchHeader | None:
    try:
        header = read_header(stream.read(position, HEADER_BYTES))
        if position + header.size > stream.size:
            return None
        check_crc(stream.read(position, header.size), header)
    except CorruptBatchError:
        return None
    return header
