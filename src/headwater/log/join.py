"""Rewrite sealed segments of many small batches into fewer, larger ones.

A log that was written row by row has one batch per row, and reading it costs accordingly. Once such
a segment is sealed, a copy is written in which adjacent small batches are joined (`rows/joined`),
and the copy replaces it. Offsets, times, change types and writer state do not change. The copy is
verified completely before it is used, and it is always smaller than the original; that is how a
reader notices that the file was replaced.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from headwater.errors import CorruptBatchError
from headwater.log.retention import LogSettings
from headwater.log.scan import BadPlace, Scanned, StoredBatch, Window, iterate_segment, scan
from headwater.log.segment import Mark, Segment, covering, index_name, segment_name
from headwater.log.small_files import encode_index
from headwater.log.state import LogState
from headwater.rows.join import JoinKind, kind_of
from headwater.rows.log_batch import JOINED, BatchHeader
from headwater.store.disk import TEMPORARY_SUFFIX, File

SMALL_BYTES_MAX = 64 << 10
"""A batch above this size is never joined."""
SOURCE_BYTES_MAX = 8 << 20
"""At most this many bytes of small batches become one batch."""
ROLL_BATCHES = 16_384
"""This many small batches in the active segment are enough to seal it."""
ROLL_BATCHES_IDLE = 1_024
ROLL_IDLE_MS = 60_000
"""This many are enough if nothing was written for a while."""
_HEADERS_CHUNK_BYTES = 4 << 10


class Join(Protocol):
    """Joins adjacent batches of one kind."""

    def join(self, batches: Sequence[bytes]) -> bytes | None:
        """Join the batches; None if the result would be too large."""
        ...


@dataclass(frozen=True, slots=True)
class Joined:
    """What became of a segment."""

    base_offset: int
    batches_before: int
    batches_after: int
    bytes_before: int
    bytes_after: int


def is_small(header: BatchHeader) -> bool:
    """Tell whether a batch may be joined; one without rows still occupies an offset."""
    return header.record_count > 0 and header.size <= SMALL_BYTES_MAX


def should_roll(small_batches: int, *, last_ms: int, now_ms: int) -> bool:
    """Tell whether to seal the active segment so that its batches can be joined."""
    is_idle = now_ms - last_ms >= ROLL_IDLE_MS
    return small_batches >= (ROLL_BATCHES_IDLE if is_idle else ROLL_BATCHES)


def small_batches_in(segment: Segment, file: File, *, end: int) -> int:
    """Count the small batches of a segment, up to a position."""
    return sum(map(is_small, _headers(segment, file, end=end)))


def gain_of(segment: Segment, file: File, *, rows_max: int) -> int:
    """Estimate how many batches joining would save; reads only headers."""
    gain, run = 0, _Run(rows_max)
    for header in _headers(segment, file, end=segment.size):
        kind = JoinKind(header.schema_id, header.attributes & ~JOINED, None)
        if not is_small(header) or not run.takes(kind, header):
            run = _Run(rows_max)
        if is_small(header):
            gain += bool(run.rows)
            run.add(kind, header)
    return gain


def _headers(segment: Segment, file: File, *, end: int) -> Iterator[BatchHeader]:
    window = Window(file, end=end, chunk_bytes=_HEADERS_CHUNK_BYTES)
    start = segment.marks[0]
    for item in iterate_segment(
        segment, file, start=start, offset=start.offset, up_to=segment.end_offset, window=window
    ):
        if isinstance(item, BadPlace):
            return
        yield item.header


@dataclass(slots=True)
class _Run:
    """Consecutive small batches of one kind."""

    rows_max: int
    kind: JoinKind | None = None
    batches: list[bytes] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def takes(self, kind: JoinKind, header: BatchHeader) -> bool:
        return not self.rows or (
            kind == self.kind
            and self.rows + header.record_count <= self.rows_max
            and self.size + header.size <= SOURCE_BYTES_MAX
        )

    def add(self, kind: JoinKind, header: BatchHeader, batch: bytes = b"") -> None:
        self.kind = kind
        self.rows += header.record_count
        self.size += header.size
        self.batches.append(batch)


class SegmentJoin:
    """Rewrites one sealed segment."""

    def __init__(
        self, state: LogState, segment: Segment, join: Join, *, settings: LogSettings
    ) -> None:
        self._state = state
        self._segment = segment
        self._join = join
        self._settings = settings
        self._path = f"{state.directory}/{segment_name(segment.base_offset)}"
        self._copy = f"{self._path}.joined{TEMPORARY_SUFFIX}"
        self._before = self._after = 0

    def run(self) -> Joined | None:
        """Write the copy and put it in place; None if that is impossible or not worthwhile.

        1. verify the segment completely  2. write the copy and sync it  3. verify the copy
        4. put it in place
        """
        state, segment = self._state, self._segment
        file = state.disk.open(segment.path)
        if self._scanned(file, expected=covering(segment.marks, segment.tail)) is None:
            return None  # The check of data at rest will report it.
        with suppress(FileNotFoundError):
            state.disk.unlink(self._copy)
        copy = state.disk.create(self._copy)
        is_replaced = False
        try:
            self._write(file, copy)
            copy.sync()
            scanned = self._scanned(copy)
            is_better = copy.size < segment.size and self._after < self._before
            is_replaced = scanned is not None and is_better and self._replace(scanned)
        finally:
            if not is_replaced:
                with suppress(OSError):
                    state.disk.unlink(self._copy)
        if not is_replaced:
            return None
        return Joined(segment.base_offset, self._before, self._after, segment.size, copy.size)

    def _scanned(self, file: File, *, expected: Sequence[Mark] = ()) -> Scanned | None:
        """Verify a file from end to end; None if it does not match the segment."""
        segment = self._segment
        scanned = scan(
            file,
            start=segment.marks[0],
            end=file.size,
            interval_bytes=self._settings.index_interval_bytes,
            expected=expected,
        )
        end, wanted = scanned.tail, segment.tail
        is_same = (end.offset, end.timestamp_ms) == (wanted.offset, wanted.timestamp_ms)
        return scanned if is_same and not scanned.bad else None

    def _write(self, file: File, copy: File) -> None:
        rows_max = self._settings.join_rows_max
        run = _Run(rows_max)
        for item in self._batches(file):
            self._before += 1
            header, batch = item.header, item.read(0, item.header.size)
            if not is_small(header):
                self._put(copy, run)
                run = _Run(rows_max)
                copy.append([batch])
                self._after += 1
                continue
            kind = kind_of(batch, header)
            if not run.takes(kind, header):
                self._put(copy, run)
                run = _Run(rows_max)
            run.add(kind, header, batch)
        self._put(copy, run)

    def _batches(self, file: File) -> Iterator[StoredBatch]:
        segment, start = self._segment, self._segment.marks[0]
        for item in iterate_segment(
            segment, file, start=start, offset=start.offset, up_to=segment.end_offset
        ):
            if isinstance(item, BadPlace):
                raise CorruptBatchError(item.reason)
            self._state.refuse_if_stopped()
            yield item

    def _put(self, copy: File, run: _Run) -> None:
        """Write a run as one batch, or unchanged if joining does not help."""
        joined = self._join.join(run.batches) if len(run.batches) > 1 else None
        if joined is not None and len(joined) < run.size:
            copy.append([joined])
            self._after += 1
        elif run.batches:
            copy.append(run.batches)
            self._after += len(run.batches)

    def _replace(self, scanned: Scanned) -> bool:
        """Replace the segment with its copy.

        1. remove the index durably: it describes the old file  2. rename  3. switch readers to it
        4. make the name durable  5. write the new index. A crash leaves the old file or the new
        one, either without an index or with its own.
        """
        state, segment = self._state, self._segment
        index = f"{state.directory}/{index_name(segment.base_offset)}"
        with state.syncing:
            state.refuse_if_stopped()
            if segment not in state.shape.segments:
                return False
            with suppress(FileNotFoundError):
                state.disk.unlink(index)
            segment.is_indexed = False
            state.disk.sync_directory(state.directory)
            state.disk.rename(self._copy, self._path)
            marks = [mark for mark in scanned.marks if mark.position < scanned.tail.position]
            new = Segment(path=self._path, marks=marks, tail=scanned.tail, is_settled=True)
            with state.writing:
                state.shape = state.shape.with_other(segment, new)
            try:
                state.disk.sync_directory(state.directory)
            except OSError as error:
                # From here on a crash may leave either file, so no index may be written.
                state.fence(f"replacing a segment with its joined copy failed with {error}")
                raise
            # If this fails, the next checkpoint writes it.
            state.disk.replace(index, encode_index(covering(new.marks, new.tail)))
            new.is_indexed = True
            return True
