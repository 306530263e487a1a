"""Read and verify a log while it is being written."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter

from headwater import errors
from headwater.log.scan import BadPlace, ReadLimits, StoredBatch, iterate_segment, read_whole, scan
from headwater.log.segment import LogShape, Mark, Segment
from headwater.log.state import LogState
from headwater.rows.join import read_parts
from headwater.store.disk import File, is_passing

_LOOKUPS_MAX = 3
_position_of = attrgetter("position")


class Reader:
    """Reads a log; every method may run in any thread."""

    def __init__(self, state: LogState, *, interval_bytes: int) -> None:
        self._state = state
        self._interval_bytes = interval_bytes

    def read(self, wanted: ReadLimits) -> memoryview:
        """Read whole batches from one segment."""
        while (found := self._find(wanted.offset, wanted.up_to)) is not None:
            segment, file = found
            start = segment.mark_before(wanted.offset)
            with _reporting(segment):
                data = read_whole(segment, file, start=start, wanted=wanted)
            if isinstance(data, memoryview):
                return data
            self._set_aside(segment, data)
        return memoryview(b"")

    def batches(self, offset: int, up_to: int) -> Iterator[StoredBatch]:
        """Yield batches across segments."""
        while (found := self._find(offset, up_to)) is not None:
            segment, file = found
            before, start = offset, segment.mark_before(offset)
            for item in iterate_segment(segment, file, start=start, offset=offset, up_to=up_to):
                if isinstance(item, BadPlace):
                    self._set_aside(segment, item)
                    before = -1
                    break
                yield item
                offset = item.header.end_offset
            if offset == before:
                return

    def offset_for_timestamp(self, timestamp_ms: int) -> int:
        """Find the first offset whose batch was committed at or after a time, or the log end."""
        while True:
            shape = self._state.shape
            found = self._first_at(timestamp_ms, shape)
            # A segment rewritten meanwhile may have returned nothing although it has the row.
            if found is not None or shape is self._state.shape:
                return max(shape.active.end_offset if found is None else found, shape.start_offset)

    def _first_at(self, timestamp_ms: int, shape: LogShape) -> int | None:
        for segment in shape.segments:
            if segment.size == 0 or segment.tail.timestamp_ms < timestamp_ms:
                continue
            mark = segment.mark_before_timestamp(timestamp_ms)
            # Its rows may not be needed, so damage is reported only when they are read.
            for item in self._iterate_from(segment, mark):
                if item.header.commit_timestamp >= timestamp_ms:
                    return _offset_in(item, timestamp_ms)
        return None

    def verify(self, limit_bytes: int) -> int:
        """Verify what this process has not verified yet; return the number of bytes verified."""
        checked = 0
        for segment in self._state.shape.segments:
            while checked < limit_bytes and segment.verified_to < _unverified_end(segment):
                step = self._verify_next(segment)
                if step == 0:
                    break
                checked += step
        return checked

    def _verify_next(self, segment: Segment) -> int:
        """Verify up to the next mark; 0 means that the segment was set aside."""
        start, end = _interval(segment)
        file = self._open(segment)
        if file is None:
            return 0
        with _reporting(segment):
            scanned = scan(
                file,
                start=start,
                end=end.position,
                interval_bytes=self._interval_bytes,
                expected=() if end is segment.tail and segment.is_damaged else (end,),
            )
        if scanned.bad:
            self._set_aside(
                segment, BadPlace(scanned.tail.offset, scanned.tail.position, scanned.bad)
            )
            return 0
        segment.verified_to = end.position
        return end.position - start.position

    def _find(self, offset: int, up_to: int) -> tuple[Segment, File] | None:
        """Find the segment to read from; None at the end; raises if the offset cannot be read."""
        for _ in range(_LOOKUPS_MAX):
            shape = self._state.shape
            _require_inside(offset, shape.start_offset, up_to)
            if offset == min(up_to, shape.active.end_offset):
                return None
            segment = shape.holding(offset)
            if segment is None:
                self._raise_damaged(offset)
            elif (file := self._open(segment)) is not None:
                return segment, file
            with self._state.syncing:
                pass  # A rename or removal of the file is visible in the shape by now.
        if self._state.is_closed:
            raise errors.StoppingError(f"The log in {self._state.directory} is closed.")
        raise errors.StorageError(
            f"The file with offset {offset} in {self._state.directory} is missing."
        )

    def _raise_damaged(self, offset: int) -> None:
        damage = self._state.shape.damage_at(offset)
        if damage is None:
            raise errors.OffsetOutOfRangeError(f"Offset {offset} is not in the log.")
        raise errors.DamagedRangeError(
            f"Offset {offset} cannot be read: {self._state.directory}/{damage.file} is "
            f"damaged from offset {damage.start} on: {damage.reason.rstrip('.')}.",
            hint=f"Restore the file from a copy, or continue at offset {damage.end}.",
        )

    def _iterate_from(self, segment: Segment, start: Mark) -> Iterator[StoredBatch]:
        file = self._open(segment)
        if file is None:
            return
        up_to = segment.end_offset
        for item in iterate_segment(segment, file, start=start, offset=start.offset, up_to=up_to):
            if isinstance(item, StoredBatch):
                yield item

    def _open(self, segment: Segment) -> File | None:
        """Open a segment; None if it was removed or set aside meanwhile."""
        with _reporting(segment):
            try:
                file = segment.handle(self._state.disk)
            except FileNotFoundError:
                return None
            is_as_known = segment.file is not None or file.size == segment.size
            return file if is_as_known or not self._is_replaced(segment) else None

    def _is_replaced(self, segment: Segment) -> bool:
        """Tell whether a segment was rewritten, which makes its file smaller."""
        with self._state.syncing:  # A rewrite is visible in the shape by now.
            return segment not in self._state.shape.segments

    def _set_aside(self, segment: Segment, bad: BadPlace) -> None:
        if not self._state.set_aside(segment, bad):
            raise errors.CorruptFileError(
                f"{segment.path} is damaged at offset {bad.offset}: {bad.reason}."
            )


def _offset_in(batch: StoredBatch, timestamp_ms: int) -> int:
    """Find the first offset of a batch that was committed at or after a time."""
    header = batch.header
    if not header.is_joined:
        return header.base_offset
    data = batch.read(0, header.size)
    return header.base_offset + read_parts(data, header).first_at(timestamp_ms)


@contextmanager
def _reporting(segment: Segment) -> Iterator[None]:
    """Translate a disk failure into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if is_passing(error):
            raise errors.RetryLaterError(
                f"{segment.path} cannot be read right now: {error}.",
                hint=("Try again. If this persists, raise the limit of open files (ulimit -n)."),
            ) from error
        raise errors.StorageError(
            f"Reading {segment.path} failed with {error}.", hint="Check the disk."
        ) from error


def _require_inside(offset: int, start_offset: int, up_to: int) -> None:
    if not start_offset <= offset <= up_to:
        raise errors.OffsetOutOfRangeError(
            f"Offset {offset} is not in the log, which holds offsets {start_offset} to {up_to}.",
            hint="Read from the earliest or the latest offset.",
        )


def _unverified_end(segment: Segment) -> int:
    return min(segment.verified_from, segment.size)


def _interval(segment: Segment) -> tuple[Mark, Mark]:
    """The mark up to which a segment is verified, and the next position to verify to."""
    index = bisect_right(segment.marks, segment.verified_to, key=_position_of)
    following = segment.marks[index] if index < len(segment.marks) else segment.tail
    return segment.marks[index - 1], following
