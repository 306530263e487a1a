"""Read whole batches from one segment, checking that they follow each other."""

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.errors import CorruptBatchError
from headwater.log.mark import Mark
from headwater.log.segment import Segment
from headwater.log.window import Bad, Step, Window, is_intact
from headwater.rows.log_batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from headwater.store.disk import File

CHUNK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hold what a read asks for."""

    offset: int
    up_to: int
    bytes_max: int
    at_least_one: bool


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Hold one stored batch of which only the header is read so far."""

    header: BatchHeader
    verified: bool
    position: int
    window: Window

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes of a range, counted from the start of the batch."""
        assert 0 <= start <= end <= self.header.size
        return self.window.bytes(self.position + start, self.position + end)

    def verify(self) -> None:
        """Refuse the batch if its checksum does not fit its bytes."""
        data = self.read(0, self.header.size)
        if len(data) < self.header.size:
            raise CorruptBatchError("The file became shorter than the batch.")
        check_crc(data, self.header)


def read_whole(segment: Segment, file: File, *, start: Mark, wanted: Wanted) -> memoryview | Bad:
    """Return whole batches from the one that holds the wanted offset."""
    ahead = CHUNK_BYTES + wanted.bytes_max + HEADER_BYTES
    window = Window(file, end=segment.size, chunk_bytes=ahead)
    first = window.seek(start.position, start.offset, offset=wanted.offset)
    if isinstance(first, Bad):
        return first
    steps = _take(window, first, end=segment.size, wanted=wanted)
    if isinstance(steps, Bad):
        return steps
    if not steps and segment.is_verified(first.position):
        return memoryview(b"")
    # An empty answer is only true if the batch at hand really is as long as it says.
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
) -> Iterator[StoredBatch | Bad]:
    """Yield the batches from the one that holds an offset; end early at something bad."""
    window = window or Window(file, end=segment.size, chunk_bytes=CHUNK_BYTES)
    position, expected = start.position, start.offset
    while position < window.end:
        step = window.step(position, expected)
        if isinstance(step, Bad):
            yield step
            return
        if step.offset_end > up_to:
            yield from _overstated(segment, window, step)
            return
        if step.offset_end > offset:
            header = read_header(window.bytes(position, position + HEADER_BYTES))
            yield StoredBatch(header, segment.is_verified(position), position, window)
        position, expected = step.position_end, step.offset_end


def _overstated(segment: Segment, window: Window, step: Step) -> Iterator[Bad]:
    """Yield a batch that seems to reach too far, unless it is what it says."""
    is_known = segment.is_verified(step.position)
    if not is_known and not is_intact(window.bytes(step.position, step.position_end)):
        yield Bad(step.offset, step.position, "the checksum of a batch does not fit")


def _take(window: Window, first: Step, *, end: int, wanted: Wanted) -> list[Step] | Bad:
    """Return the batches that fit the limits of a read."""
    steps: list[Step] = []
    step: Step | Bad = first
    while isinstance(step, Step):
        is_over = step.position_end - first.position > wanted.bytes_max
        if step.offset_end > wanted.up_to or (is_over and (steps or not wanted.at_least_one)):
            return steps
        steps.append(step)
        if step.position_end == end:
            return steps
        step = window.step(step.position_end, step.offset_end)
    # What is good before something bad is still served; the next read starts at the bad part.
    return steps or step


def _unverified(segment: Segment, data: memoryview, steps: list[Step]) -> Bad | None:
    """Check what nobody checked yet and return the first bad batch."""
    for step in steps:
        start, end = step.position - steps[0].position, step.position_end - steps[0].position
        if segment.is_verified(step.position) and end <= len(data):
            continue
        if end > len(data) or not is_intact(data[start:end]):
            return Bad(step.offset, step.position, "the checksum of a batch does not fit")
    return None
