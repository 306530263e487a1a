"""A moving view of a segment's bytes, so that headers are read in chunks and bodies as needed."""

import struct
from dataclasses import dataclass

from headwater.errors import CorruptBatchError
from headwater.rows.log_batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC_STATISTICS,
    check_crc,
    read_header,
)
from headwater.store.disk import File

# base offset, length, magic, last offset delta, record count
_STEP = struct.Struct("<qiB15xi12xi")


@dataclass(frozen=True, slots=True)
class Step:
    """Hold where a batch starts and ends, in offsets and in bytes."""

    offset: int
    position: int
    offset_end: int
    position_end: int


@dataclass(frozen=True, slots=True)
class Bad:
    """Tell where a segment stops making sense."""

    offset: int
    position: int
    reason: str


class Window:
    """Hold one chunk of a segment and fetch another when asked for bytes outside it."""

    __slots__ = ("_chunk", "_chunk_bytes", "_chunk_start", "_end", "_file")

    def __init__(self, file: File, *, end: int, chunk_bytes: int) -> None:
        self._file = file
        self._end = end
        self._chunk_bytes = chunk_bytes
        self._chunk = b""
        self._chunk_start = 0

    @property
    def end(self) -> int:
        """Return the position up to which the segment is read."""
        return self._end

    def step(self, position: int, expected: int) -> Step | Bad:
        """Read over the batch at a position, which must start at the expected offset."""
        at = self._fetch(position, HEADER_BYTES)
        if len(self._chunk) - at < HEADER_BYTES:
            return Bad(expected, position, "the file ends inside a batch header")
        base, length, magic, delta, count = _STEP.unpack_from(self._chunk, at)
        end = position + LENGTH_END + length
        fits = base == expected and magic <= MAGIC_STATISTICS and delta == max(count - 1, 0)
        if not fits or end < position + HEADER_BYTES or end > self._end:
            return Bad(expected, position, "a batch header does not fit the one before")
        return Step(base, position, base + delta + 1, end)

    def seek(self, position: int, expected: int, *, offset: int) -> Step | Bad:
        """Walk to the batch that holds an offset."""
        while True:
            at = self._fetch(position, HEADER_BYTES)
            if len(self._chunk) - at < HEADER_BYTES:
                break
            base, length, magic, delta, count = _STEP.unpack_from(self._chunk, at)
            is_sound = base == expected and magic <= MAGIC_STATISTICS and delta >= count - 1
            if not is_sound or length < HEADER_BYTES - LENGTH_END or base + delta >= offset:
                break
            position += LENGTH_END + length
            expected = base + delta + 1
        # The batch is found, or something is wrong with it: a step tells.
        return self.step(position, expected)

    def bytes(self, start: int, end: int) -> bytes:
        """Return the bytes of a range; fewer if the file became shorter."""
        return bytes(self.view(start, end))

    def view(self, start: int, end: int) -> memoryview:
        """Return a range as `bytes` does, without a copy."""
        at = self._fetch(start, end - start)
        return memoryview(self._chunk)[at : at + end - start]

    def _fetch(self, position: int, length: int) -> int:
        """Have a range in the chunk and return where in it the range starts."""
        at = position - self._chunk_start
        if at < 0 or at + length > len(self._chunk):
            wanted = min(max(length, self._chunk_bytes), self._end - position)
            self._chunk = self._file.read(position, wanted)
            self._chunk_start, at = position, 0
        return at


def is_intact(batch: bytes | memoryview) -> bool:
    """Tell whether the checksum of a batch fits."""
    try:
        check_crc(batch, read_header(batch))
    except CorruptBatchError:
        return False
    return True
