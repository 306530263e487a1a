"""Walk a segment batch by batch, checking everything that can be checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.errors import CorruptBatchError
from headwater.log.mark import Mark, extend_chain, fits
from headwater.rows.log_batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from headwater.store.disk import File

_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Scanned:
    """Hold the good part of a segment; `bad` says why it ends before the file does."""

    marks: tuple[Mark, ...]
    tail: Mark
    bad: str = ""


def scan(
    file: File,
    *,
    start: Mark,
    end: int,
    interval_bytes: int,
    expected: Sequence[Mark] = (),
    visit: Callable[[BatchHeader, bytes], None] = lambda _, __: None,
) -> Scanned:
    """Check the batches from a mark to a position, up to the first bad one.

    Marks are set where `expected` has them and must fit those, else at intervals.
    """
    walk = _Walk(start, interval_bytes, expected)
    chunk, chunk_start = b"", start.position
    while walk.tail.position < end:
        at = walk.tail.position - chunk_start
        try:
            if len(chunk) - at < min(_needed(chunk, at), end - walk.tail.position):
                chunk_start = walk.tail.position
                chunk = _read(file, chunk_start, end)
                at = 0
            header = read_header(chunk, at)
            batch = chunk[at : at + header.size]
            walk.step(header, batch)
        except CorruptBatchError as error:
            return walk.stopped(str(error))
        if walk.broken:
            return walk.stopped(walk.broken)
        visit(header, batch)
    return walk.finished()


class _Walk:
    """Follow the batches of a segment."""

    def __init__(self, start: Mark, interval_bytes: int, expected: Sequence[Mark]) -> None:
        self.marks = [start]
        self.tail = Mark(start.offset, start.position, start.timestamp_ms)
        self.broken = ""
        self._interval_bytes = interval_bytes
        self._expected = {mark.position: mark for mark in expected}

    def step(self, header: BatchHeader, batch: bytes) -> None:
        """Take the next batch or say what is wrong with it."""
        if len(batch) < header.size:
            raise CorruptBatchError(f"a batch of {header.size} bytes ends after {len(batch)}")
        if header.base_offset != self.tail.offset:
            raise CorruptBatchError(
                f"a batch starts at offset {header.base_offset} instead of {self.tail.offset}"
            )
        if header.commit_timestamp < self.tail.timestamp_ms:
            raise CorruptBatchError(f"the commit timestamp goes back to {header.commit_timestamp}")
        check_crc(batch, header)
        if self._is_mark_due():
            self.marks.append(self.tail)
        chain = 0 if self.tail is self.marks[-1] else self.tail.chain
        self.tail = Mark(
            header.end_offset,
            self.tail.position + header.size,
            header.commit_timestamp,
            extend_chain(chain, batch),
        )
        self._compare()

    def stopped(self, reason: str) -> Scanned:
        """Return what was good before something bad."""
        return Scanned(tuple(self.marks), self.tail, reason)

    def finished(self) -> Scanned:
        """Return a segment that is good to its end."""
        return Scanned(tuple(self.marks), self.tail)

    def _is_mark_due(self) -> bool:
        if self.tail.position == self.marks[-1].position:
            return False
        if self._expected:
            return self.tail.position in self._expected
        return self.tail.position - self.marks[-1].position >= self._interval_bytes

    def _compare(self) -> None:
        """Compare with the mark that the index has here; a misfit may lie anywhere since."""
        expected = self._expected.get(self.tail.position)
        if expected is None or fits(expected, self.tail):
            return
        self.broken = "the batch headers do not fit the index"
        last = self.marks[-1]
        self.tail = Mark(last.offset, last.position, last.timestamp_ms)


def _needed(chunk: bytes, at: int) -> int:
    """Return how many bytes the next batch takes, or a header if that is not in yet."""
    return read_header(chunk, at).size if len(chunk) - at >= HEADER_BYTES else HEADER_BYTES


def _read(file: File, position: int, end: int) -> bytes:
    """Read a chunk that holds the whole batch at a position."""
    chunk = file.read(position, min(_CHUNK_BYTES, end - position))
    size = _needed(chunk, 0)
    if size <= len(chunk) or len(chunk) == end - position:
        return chunk
    return file.read(position, min(size, end - position))
