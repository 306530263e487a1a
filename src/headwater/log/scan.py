"""Walk a segment batch by batch, and verify that the batches are consecutive.

A sliding window reads headers in chunks and bodies on demand.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headwater.errors import CorruptBatchError
from headwater.log.segment import Mark, Segment, extend_chain, fits
from headwater.rows import log_batch
from headwater.store.disk import File

# base offset, length, magic, last offset delta, record count
_STEP = struct.Struct("<qiB15xi12xi")


@dataclass(frozen=True, slots=True)
class Step:
    """Where a batch starts and ends, in offsets and in bytes."""

    offset: int
    position: int
    offset_end: int
    position_end: int


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Where a segment stops making sense, and why."""

    offset: int
    position: int
    reason: str


class Window:
    """One chunk of a segment; another is fetched when bytes outside it are needed."""

    __slots__ = ("_chunk", "_chunk_bytes", "_chunk_start", "_end", "_file")

    def __init__(self, file: File, *, end: int, chunk_bytes: int) -> None:
        self._file = file
        self._end = end
        self._chunk_bytes = chunk_bytes
        self._chunk = b""
        self._chunk_start = 0

    @property
    def end(self) -> int:
        """Position up to which the segment is read."""
        return self._end

    def step(self, position: int, expected: int) -> Step | BadPlace:
        """Step over the batch at a position, which must start at the expected offset."""
        at = self._fetch(position, log_batch.HEADER_BYTES)
        if len(self._chunk) - at < log_batch.HEADER_BYTES:
            return BadPlace(expected, position, "the file ends inside a batch header")
        base, length, magic, delta, count = _STEP.unpack_from(self._chunk, at)
        end = position + log_batch.LENGTH_END + length
        fits = (
            base == expected and magic <= log_batch.MAGIC_STATISTICS and delta == max(count - 1, 0)
        )
        if not fits or end < position + log_batch.HEADER_BYTES or end > self._end:
            return BadPlace(expected, position, "a batch header does not continue the one before")
        return Step(base, position, base + delta + 1, end)

    def seek(self, position: int, expected: int, *, offset: int) -> Step | BadPlace:
        """Walk to the batch that contains an offset."""
        while True:
            at = self._fetch(position, log_batch.HEADER_BYTES)
            if len(self._chunk) - at < log_batch.HEADER_BYTES:
                break
            base, length, magic, delta, count = _STEP.unpack_from(self._chunk, at)
            is_sound = (
                base == expected and magic <= log_batch.MAGIC_STATISTICS and delta >= count - 1
            )
            if (
                not is_sound
                or length < log_batch.HEADER_BYTES - log_batch.LENGTH_END
                or base + delta >= offset
            ):
                break
            position += log_batch.LENGTH_END + length
            expected = base + delta + 1
        # Either the batch is found or it is damaged; a step tells.
        return self.step(position, expected)

    def bytes(self, start: int, end: int) -> bytes:
        """Copy a byte range; shorter if the file became shorter."""
        return bytes(self.view(start, end))

    def view(self, start: int, end: int) -> memoryview:
        """Like `bytes`, without a copy."""
        at = self._fetch(start, end - start)
        return memoryview(self._chunk)[at : at + end - start]

    def _fetch(self, position: int, length: int) -> int:
        """Load a range into the chunk and return where in the chunk it starts."""
        at = position - self._chunk_start
        if at < 0 or at + length > len(self._chunk):
            wanted = min(max(length, self._chunk_bytes), self._end - position)
            self._chunk = self._file.read(position, wanted)
            self._chunk_start, at = position, 0
        return at


def is_intact(batch: bytes | memoryview) -> bool:
    """Tell whether a batch's checksum matches."""
    try:
        log_batch.check_crc(batch, log_batch.read_header(batch))
    except CorruptBatchError:
        return False
    return True


# Reading whole batches from one segment.

CHUNK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What a read asks for."""

    offset: int
    up_to: int
    bytes_max: int
    at_least_one: bool


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A stored batch of which only the header has been read."""

    header: log_batch.BatchHeader
    verified: bool
    position: int
    window: Window

    def read(self, start: int, end: int) -> bytes:
        """Read a range, relative to the start of the batch."""
        assert 0 <= start <= end <= self.header.size
        return self.window.bytes(self.position + start, self.position + end)

    def verify(self) -> None:
        """Raise if the checksum does not match the bytes."""
        data = self.read(0, self.header.size)
        if len(data) < self.header.size:
            raise CorruptBatchError("The file is shorter than the batch.")
        log_batch.check_crc(data, self.header)


def read_whole(
    segment: Segment, file: File, *, start: Mark, wanted: ReadLimits
) -> memoryview | BadPlace:
    """Read whole batches, starting with the one that contains the wanted offset."""
    ahead = CHUNK_BYTES + wanted.bytes_max + log_batch.HEADER_BYTES
    window = Window(file, end=segment.size, chunk_bytes=ahead)
    first = window.seek(start.position, start.offset, offset=wanted.offset)
    if isinstance(first, BadPlace):
        return first
    steps = _take(window, first, end=segment.size, wanted=wanted)
    if isinstance(steps, BadPlace):
        return steps
    if not steps and segment.is_verified(first.position):
        return memoryview(b"")
    # An empty result is only correct if this batch really is as long as it says.
    checked = steps or [first]
    data = window.view(first.position, checked[-1].position_end)
    bad = _unverified(segment, data, checked)
    return bad or (data if steps else memoryview(b""))


def iterate_segment(
    segment: Segment,
    file: File,
    *,
    start: Mark,
    offset: int,
    up_to: int,
    window: Window | None = None,
) -> Iterator[StoredBatch | BadPlace]:
    """Yield batches from the one that contains an offset; stop early at damage."""
    window = window or Window(file, end=segment.size, chunk_bytes=CHUNK_BYTES)
    position, expected = start.position, start.offset
    while position < window.end:
        step = window.step(position, expected)
        if isinstance(step, BadPlace):
            yield step
            return
        if step.offset_end > up_to:
            yield from _overstated(segment, window, step)
            return
        if step.offset_end > offset:
            header = log_batch.read_header(
                window.bytes(position, position + log_batch.HEADER_BYTES)
            )
            yield StoredBatch(header, segment.is_verified(position), position, window)
        position, expected = step.position_end, step.offset_end


def _overstated(segment: Segment, window: Window, step: Step) -> Iterator[BadPlace]:
    """Yield a batch that seems too long, unless its header is right."""
    is_known = segment.is_verified(step.position)
    if not is_known and not is_intact(window.bytes(step.position, step.position_end)):
        yield BadPlace(step.offset, step.position, "the checksum of a batch does not match")


def _take(window: Window, first: Step, *, end: int, wanted: ReadLimits) -> list[Step] | BadPlace:
    """Take the batches that fit the limits of a read."""
    steps: list[Step] = []
    step: Step | BadPlace = first
    while isinstance(step, Step):
        is_over = step.position_end - first.position > wanted.bytes_max
        if step.offset_end > wanted.up_to or (is_over and (steps or not wanted.at_least_one)):
            return steps
        steps.append(step)
        if step.position_end == end:
            return steps
        step = window.step(step.position_end, step.offset_end)
    # Good batches before damage are served; the next read starts at the damage.
    return steps or step


def _unverified(segment: Segment, data: memoryview, steps: list[Step]) -> BadPlace | None:
    """Verify the batches that were not verified before; return the first bad one."""
    for step in steps:
        start, end = step.position - steps[0].position, step.position_end - steps[0].position
        if segment.is_verified(step.position) and end <= len(data):
            continue
        if end > len(data) or not is_intact(data[start:end]):
            return BadPlace(step.offset, step.position, "the checksum of a batch does not match")
    return None


# Scanning a segment with every check there is.

_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Scanned:
    """The good part of a segment; `bad` says why it ends before the file does."""

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
    visit: Callable[[log_batch.BatchHeader, bytes], None] = lambda _, __: None,
) -> Scanned:
    """Verify the batches from a mark to a position, up to the first bad one.

    Marks are placed where `expected` has them and must match those, otherwise at intervals.
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
            header = log_batch.read_header(chunk, at)
            batch = chunk[at : at + header.size]
            walk.step(header, batch)
        except CorruptBatchError as error:
            return walk.stopped(str(error))
        if walk.broken:
            return walk.stopped(walk.broken)
        visit(header, batch)
    return walk.finished()


class _Walk:
    """Follows the batches of a segment."""

    def __init__(self, start: Mark, interval_bytes: int, expected: Sequence[Mark]) -> None:
        self.marks = [start]
        self.tail = Mark(start.offset, start.position, start.timestamp_ms)
        self.broken = ""
        self._interval_bytes = interval_bytes
        self._expected = {mark.position: mark for mark in expected}

    def step(self, header: log_batch.BatchHeader, batch: bytes) -> None:
        """Accept the next batch, or raise what is wrong with it."""
        if len(batch) < header.size:
            raise CorruptBatchError(f"a batch of {header.size} bytes ends after {len(batch)}")
        if header.base_offset != self.tail.offset:
            raise CorruptBatchError(
                f"a batch starts at offset {header.base_offset} instead of {self.tail.offset}"
            )
        if header.commit_timestamp < self.tail.timestamp_ms:
            raise CorruptBatchError(f"the commit timestamp goes back to {header.commit_timestamp}")
        log_batch.check_crc(batch, header)
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
        """The result when something bad was found."""
        return Scanned(tuple(self.marks), self.tail, reason)

    def finished(self) -> Scanned:
        """The result for a segment that is good to its end."""
        return Scanned(tuple(self.marks), self.tail)

    def _is_mark_due(self) -> bool:
        if self.tail.position == self.marks[-1].position:
            return False
        if self._expected:
            return self.tail.position in self._expected
        return self.tail.position - self.marks[-1].position >= self._interval_bytes

    def _compare(self) -> None:
        """Compare with the index's mark here; a mismatch may lie anywhere since the last mark."""
        expected = self._expected.get(self.tail.position)
        if expected is None or fits(expected, self.tail):
            return
        self.broken = "the batch headers do not match the index"
        last = self.marks[-1]
        self.tail = Mark(last.offset, last.position, last.timestamp_ms)


def _needed(chunk: bytes, at: int) -> int:
    """Bytes needed for the next batch, or for a header if that is not complete yet."""
    return (
        log_batch.read_header(chunk, at).size
        if len(chunk) - at >= log_batch.HEADER_BYTES
        else log_batch.HEADER_BYTES
    )


def _read(file: File, position: int, end: int) -> bytes:
    """Read a chunk that holds the whole batch at a position."""
    chunk = file.read(position, min(_CHUNK_BYTES, end - position))
    size = _needed(chunk, 0)
    if size <= len(chunk) or len(chunk) == end - position:
        return chunk
    return file.read(position, min(size, end - position))
