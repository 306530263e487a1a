"""Check one segment batch by batch, and find intact batches behind bad bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headwater.errors import CorruptBatchError
from headwater.log.segment import Mark, extend_chain, fits
from headwater.rows import log_batch, row_bytes
from headwater.store.disk import File

# Reading a file in chunks from anywhere, with one chunk in memory.

CHUNK_BYTES = 4 << 20


class Stream:
    """Reads ranges of a file, mostly consecutive ones."""

    __slots__ = ("_chunk", "_file", "_start", "size")

    def __init__(self, file: File) -> None:
        self._file = file
        self._chunk = b""
        self._start = 0
        self.size = file.size

    def read(self, position: int, length: int) -> memoryview:
        """Read a range; shorter only where the file ends."""
        length = min(length, max(self.size - position, 0))
        at = position - self._start
        if at < 0 or at + length > len(self._chunk):
            wanted = min(max(length, CHUNK_BYTES), self.size - position)
            self._chunk, self._start, at = self._file.read(position, wanted), position, 0
        return memoryview(self._chunk)[at : at + length]


# The marks of an index or checkpoint, compared with the batches they describe.


class MarkTrail:
    """Follows the marks of one file along the batches of its segment."""

    def __init__(self, source: str, marks: Sequence[Mark]) -> None:
        self.source = source
        self.end = marks[-1]
        # The position before which everything matches the marks.
        self.known = replace(marks[0], position=0)
        self.misfit = ""
        self._wanted = [mark for mark in marks if mark.position]
        self._chain = 0

    def step(self, head: bytes, after: Mark) -> bool:
        """Add a batch header and the position after it; return whether all matches."""
        self._chain = extend_chain(self._chain, head)
        if not self._wanted or after.position < self._wanted[0].position:
            return True
        expected = self._wanted.pop(0)
        if after.position != expected.position:
            self.misfit = f"{self.source} names byte {expected.position}, but no batch begins there"
        elif not fits(expected, replace(after, chain=self._chain)):
            self.misfit = f"the batch headers before byte {expected.position} do not match"
            self.misfit += f" {self.source}"
        self.known, self._chain = (self.known if self.misfit else expected), 0
        return not self.misfit


# Walking one segment from its first batch to its end or to the first bad one.

Visit = Callable[[log_batch.BatchHeader, memoryview], None]


@dataclass(frozen=True, slots=True)
class Walked:
    """Where the good part of a segment ends and, if that is before its end, why."""

    end: Mark
    rows: int
    batches: int
    bad: str = ""


def walk(
    stream: Stream, *, start: Mark, trails: Sequence[MarkTrail] = (), visit: Visit | None = None
) -> Walked:
    """Check every batch: that it follows the one before, its checksum, and the marks."""
    place, rows, batches = start, 0, 0
    while place.position < stream.size:
        try:
            header, batch = _checked(stream, place)
        except (CorruptBatchError, OSError) as fault:
            return Walked(place, rows, batches, str(fault))
        after = Mark(header.end_offset, place.position + header.size, header.commit_timestamp)
        misfits = [
            each for each in trails if not each.step(bytes(batch[: log_batch.HEADER_BYTES]), after)
        ]
        if misfits:
            # The changed header may be any of those after the last matching position.
            return Walked(misfits[0].known, rows, batches, misfits[0].misfit)
        if visit is not None:
            visit(header, batch)
        place, rows, batches = after, rows + header.record_count, batches + 1
    return Walked(place, rows, batches)


def _checked(stream: Stream, place: Mark) -> tuple[log_batch.BatchHeader, memoryview]:
    """Read the batch at a position, or raise what is wrong with it."""
    header = log_batch.read_header(stream.read(place.position, log_batch.HEADER_BYTES))
    if header.base_offset != place.offset:
        raise CorruptBatchError(
            f"A batch begins at offset {header.base_offset} instead of {place.offset}."
        )
    if header.commit_timestamp < place.timestamp_ms:
        raise CorruptBatchError(
            f"The commit time goes back from {place.timestamp_ms} to {header.commit_timestamp}."
        )
    batch = stream.read(place.position, header.size)
    if len(batch) < header.size:
        raise CorruptBatchError(f"A batch of {header.size} bytes ends after {len(batch)}.")
    log_batch.check_crc(batch, header)
    return header, batch


# Intact batches behind bad bytes, which tell damage from an interrupted write.

OFFSETS_AHEAD_MAX = 1 << 40
# The search starts with few bytes, since the next batch is usually near.
WINDOW_BYTES_MIN = 1 << 12
WINDOW_BYTES_MAX = 1 << 20
_LENGTH_AT, _MAGIC_AT, _DELTA_AT, _COUNT_AT = 8, 12, 28, 44


def last_end_behind(stream: Stream, *, position: int, offset: int) -> int | None:
    """Find where the last intact batch behind bad bytes ends; None if there is none."""
    end: int | None = None
    position += 1
    while (found := _next_whole(stream, position, offset)) is not None:
        position, header = found
        while header is not None:
            end = offset = header.end_offset
            position += header.size
            # Batches usually follow each other, and then need no search.
            header = _whole(stream, position)
    return end


def _next_whole(
    stream: Stream, start: int, offset: int
) -> tuple[int, log_batch.BatchHeader | None] | None:
    width = WINDOW_BYTES_MIN
    while start + log_batch.HEADER_BYTES <= stream.size:
        data = np.frombuffer(stream.read(start, width + log_batch.HEADER_BYTES - 1), np.uint8)
        for at in _candidates(data, offset).tolist():
            header = _whole(stream, start + at)
            if header is not None:
                return start + at, header
        start += width
        width = min(2 * width, WINDOW_BYTES_MAX)
    return None


def _candidates(data: row_bytes.Bytes, offset: int) -> row_bytes.Longs:
    """Find the positions where the bytes satisfy the fixed relations of a header."""
    count = len(data) - log_batch.HEADER_BYTES + 1
    if count <= 0:
        return np.empty(0, np.int64)
    first = row_bytes.overlapping_words(data)[:count]
    numbers = row_bytes.overlapping(data, np.int32).astype(np.int64)
    records = numbers[_COUNT_AT : _COUNT_AT + count]
    # Offsets below the wanted one wrap around and become too large.
    fits = first - np.uint64(offset) < OFFSETS_AHEAD_MAX
    fits &= (
        numbers[_LENGTH_AT : _LENGTH_AT + count] >= log_batch.HEADER_BYTES - log_batch.LENGTH_END
    )
    fits &= data[_MAGIC_AT : _MAGIC_AT + count] <= log_batch.MAGIC_STATISTICS
    fits &= numbers[_DELTA_AT : _DELTA_AT + count] == np.maximum(records - 1, 0)
    return np.flatnonzero(fits)


def _whole(stream: Stream, position: int) -> log_batch.BatchHeader | None:
    try:
        header = log_batch.read_header(stream.read(position, log_batch.HEADER_BYTES))
        if position + header.size > stream.size:
            return None
        log_batch.check_crc(stream.read(position, header.size), header)
    except CorruptBatchError:
        return None
    return header
