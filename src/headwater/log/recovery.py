"""Recover a bucket's log from its directory after a crash.

Sealed segments are trusted by their index and checkpoint; what was written since the checkpoint is
verified batch by batch. An unfinished tail is cut off, a damaged segment is set aside and its good
part served. Behind damaged bytes, intact batches are searched for, because their offsets may have
been given out and must not be reused.
"""

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.errors import CorruptBatchError
from headwater.log.retention import LogSettings
from headwater.log.scan import BadPlace, Scanned, Window, scan
from headwater.log.segment import (
    Damage,
    DeletedSegment,
    Mark,
    Segment,
    SegmentName,
    deleted_segments,
    index_name,
    new_segment,
    segment_name,
    segment_names,
    torn_name,
)
from headwater.log.small_files import Checkpoint, SmallFiles
from headwater.log.writers import Writers
from headwater.rows.changelog import sent_batches
from headwater.rows.log_batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, File

# Search for intact batches behind damaged bytes.

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
_OFFSETS_AHEAD_MAX = 1 << 40
_LENGTH_AT, _MAGIC_AT, _DELTA_AT, _COUNT_AT = 8, 12, 28, 44
# A batch without records is a header and perhaps an empty statistics length. Without this check
# every number in a 64-bit column looks like such a header.
_EMPTY_LENGTH_MAX = HEADER_BYTES - _MAGIC_AT + 4
# The search starts with few bytes, since the next batch is usually near.
_WINDOW_BYTES_MIN = 1 << 12
_WINDOW_BYTES_MAX = 1 << 18


def last_offset_seen(data: bytes, *, offset: int) -> int | None:
    """Find the end offset of the last batch in `data`; None without an intact batch.

    `data` starts with damaged bytes at `offset`. A batch directly after an intact one counts even
    if it is damaged itself, since its offsets may have been given out.
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
    """Follow consecutive intact batches; return position and offset after the last one."""
    position, offset = position + header.size, header.end_offset
    following = _following(data, position, offset)
    while following is not None and _is_whole(data, position, following):
        position, offset = position + following.size, following.end_offset
        following = _following(data, position, offset)
    return position, offset


def _following(data: bytes, position: int, offset: int) -> BatchHeader | None:
    """Decode the header at a position if it continues at an offset."""
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
    """Yield the positions where the bytes satisfy the fixed relations of a header."""
    whole, width = np.frombuffer(data, dtype=np.uint8), _WINDOW_BYTES_MIN
    while start + HEADER_BYTES <= len(data):
        window = whole[start : start + width + HEADER_BYTES - 1]
        for position in _fitting(window, room=len(data) - start):
            yield start + int(position)
        start += width
        width = min(2 * width, _WINDOW_BYTES_MAX)


def _fitting(array: Bytes, *, room: int) -> Integers:
    """Find where in a window a header may start whose batch fits the remaining bytes."""
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
    """Decode the little-endian 32-bit integers that start at every byte."""
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


@dataclass(frozen=True, slots=True)
class Recovered:
    """A recovered log; its last segment is the active one."""

    start_offset: int
    segments: tuple[Segment, ...]
    writers: Writers
    damages: tuple[Damage, ...]
    repairs: tuple[str, ...]
    checkpoint: Checkpoint | None
    deleted: tuple[DeletedSegment, ...]


def recover(disk: Disk, directory: str, settings: LogSettings) -> Recovered:
    """Open a bucket's directory, repairing the effects of a crash and setting aside damage.

    1. finish what a crash interrupted: temporary files, segments before the log start
    2. examine each segment, oldest first
    3. make the log continue after every offset that was ever seen
    """
    disk.make_directories(directory)
    recovery = _Recovery(disk, directory, settings)
    found = recovery.tidy()
    for index, name in enumerate(found):
        following = found[index + 1].base_offset if index + 1 < len(found) else None
        recovery.examine(name, following)
    return recovery.finish()


class _Recovery:
    """Collects what is found in a bucket's directory."""

    def __init__(self, disk: Disk, directory: str, settings: LogSettings) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._names = disk.listdir(directory)
        self._small_files = SmallFiles(disk, directory, self._names)
        self._repairs: list[str] = []
        self._damages: list[Damage] = []
        self._segments: list[Segment] = []
        self._checkpoint = self._small_files.checkpoint()
        self._writers = _writers(self._checkpoint, kept_max=settings.batches_kept_per_writer)
        self._start_offset = self._checkpoint.start_offset if self._checkpoint else 0
        self._end_offset = 0

    def tidy(self) -> list[SegmentName]:
        """Remove leftovers and return the segments to examine."""
        for name in self._names:
            if name.endswith(TEMPORARY_SUFFIX):
                self._disk.unlink(self._path(name))
        found = segment_names(self._names)
        while len(found) > 1 and found[1].base_offset <= self._start_offset:
            remove_segment(self._disk, self._directory, found.pop(0))
        first = found[0].base_offset if found else self._start_offset
        if self._checkpoint is None:
            self._start_offset = first
        self._end_offset = min(first, self._start_offset)
        return found

    def examine(self, name: SegmentName, following: int | None) -> None:
        """Add a segment to the log, or the good part of it."""
        if name.base_offset > self._end_offset:
            self._missing(name.base_offset, "the file is missing")
        file = self._disk.open(self._path(str(name)))
        index = self._small_files.index(name.base_offset)
        if following is None:
            following = self._known_end(name, index)
        if not name.is_damaged and self._can_trust(index, name, file, following):
            self._add(_indexed(self._path(str(name)), index))
        elif following is None:
            self._take_last(name, file, index)
        else:
            self._take_sealed(name, file, index=index, following=following)

    def finish(self) -> Recovered:
        """Make sure there is an active segment after every offset that was ever seen."""
        if self._checkpoint and self._checkpoint.recovery_offset > self._end_offset:
            self._missing(self._checkpoint.recovery_offset, "the file is missing or truncated")
        last = self._segments[-1] if self._segments else None
        if last is None or last.file is None or last.end_offset != self._end_offset:
            name = segment_name(self._end_offset)
            start = Mark(self._end_offset, 0, self._latest_ms())
            file = self._disk.create(self._path(name))
            self._segments.append(new_segment(self._path(name), start=start, file=file))
        elif last.size == 0:
            last.tail = replace(last.tail, timestamp_ms=self._latest_ms())
        return Recovered(
            self._start_offset,
            tuple(self._segments),
            self._writers,
            tuple(self._damages),
            (*self._small_files.repairs, *self._repairs),
            self._checkpoint,
            deleted_segments(self._names),
        )

    def _known_end(self, name: SegmentName, index: Sequence[Mark]) -> int | None:
        """Find where a sealed segment ended although the one after it is missing."""
        if self._checkpoint and self._checkpoint.segment_base > name.base_offset:
            return self._checkpoint.segment_base
        return index[-1].offset if index else None

    def _can_trust(
        self, index: tuple[Mark, ...], name: SegmentName, file: File, following: int | None
    ) -> bool:
        """Tell whether a sealed segment from before the checkpoint matches its index."""
        if self._checkpoint is None or name.base_offset >= self._checkpoint.segment_base:
            return False
        if following is None or len(index) < 2 or index[-1].offset > following:  # noqa: PLR2004
            return False
        return index[-1].position == file.size and _starts_right(file, name)

    def _take_sealed(
        self, name: SegmentName, file: File, *, index: Sequence[Mark], following: int
    ) -> None:
        scanned = self._scan(name, file, index)
        reason = scanned.bad
        if index and scanned.tail.offset < index[-1].offset:
            reason = reason or "it is shorter than its index says"
        if scanned.tail.offset > following:
            reason = "it overlaps the segment after it"
        if name.is_damaged or reason:
            self._set_aside(name, scanned, reason=reason, end=following)
            return
        # If it ends before the next one starts, this file is fine: another one is missing.
        self._add(self._segment(name, scanned))

    def _take_last(self, name: SegmentName, file: File, index: Sequence[Mark]) -> None:
        scanned = self._scan(name, file, index)
        known = self._checkpoint.recovery_offset if self._checkpoint else 0
        rest = file.read(scanned.tail.position, file.size - scanned.tail.position)
        seen = last_offset_seen(rest, offset=scanned.tail.offset) or 0
        if name.is_damaged or seen or scanned.tail.offset < known:
            end = max(seen, known, scanned.tail.offset)
            reason = scanned.bad or "it is shorter than at its last checkpoint"
            self._set_aside(name, scanned, reason=reason, end=end)
            return
        if rest:
            self._cut_tail(name, file, scanned=scanned, rest=rest)
        segment = self._segment(name, scanned)
        segment.file = file
        # The process that created it may have died before its name was durable.
        segment.is_named = False
        segment.written_from = segment.size
        # Only data written by this process is certainly in memory; the mark records that.
        if segment.size > segment.marks[-1].position:
            segment.marks.append(segment.tail)
            segment.tail = replace(segment.tail, chain=0)
        self._add(segment)

    def _scan(self, name: SegmentName, file: File, index: Sequence[Mark]) -> Scanned:
        """Verify a segment, starting at the checkpoint if that lies inside it."""
        known: tuple[Mark, ...] = ()
        if self._checkpoint and self._checkpoint.segment_base == name.base_offset:
            known = self._checkpoint.marks
        skips = bool(known) and not index and self._skips(name, file, known)
        scanned = scan(
            file,
            start=known[-1] if skips else Mark(name.base_offset, 0, 0),
            end=file.size,
            interval_bytes=self._settings.index_interval_bytes,
            expected=index or (() if skips else known),
            visit=self._visit,
        )
        return replace(scanned, marks=known[:-1] + scanned.marks) if skips else scanned

    def _skips(self, name: SegmentName, file: File, known: Sequence[Mark]) -> bool:
        return (
            not name.is_damaged
            and 0 < known[-1].position <= file.size
            and _starts_right(file, name)
        )

    def _segment(self, name: SegmentName, scanned: Scanned) -> Segment:
        marks = [mark for mark in scanned.marks if mark.position < scanned.tail.position]
        last = scanned.marks[-1]
        tail = last if last.position == scanned.tail.position else scanned.tail
        known = self._checkpoint
        is_skipped = known is not None and known.segment_base == name.base_offset
        return Segment(
            path=self._path(str(name)),
            marks=marks or [tail],
            tail=tail,
            verified_from=known.marks[-1].position if known and is_skipped else 0,
        )

    def _visit(self, header: BatchHeader, batch: bytes) -> None:
        """Record the writers of batches that are newer than the checkpoint."""
        if self._checkpoint is None or header.base_offset >= self._checkpoint.recovery_offset:
            for each, checksum in sent_batches(batch, header):
                self._writers.record(
                    each,
                    base_offset=each.base_offset,
                    timestamp_ms=each.commit_timestamp,
                    checksum=checksum,
                )

    def _cut_tail(self, name: SegmentName, file: File, *, scanned: Scanned, rest: bytes) -> None:
        """Cut off what a crash left unfinished; unless it is all zeros, keep a copy."""
        if rest.count(0) != len(rest):
            torn = torn_name(name.base_offset, self._names)
            self._disk.replace(self._path(torn), rest)
            self._repairs.append(
                f"{name}: cut {len(rest)} bytes at offset {scanned.tail.offset}"
                f" ({scanned.bad}); they are kept in {torn}"
            )
        file.truncate(scanned.tail.position)
        file.sync()

    def _set_aside(self, name: SegmentName, scanned: Scanned, *, reason: str, end: int) -> None:
        """Keep serving the good part of a damaged segment, renamed to say so."""
        aside = SegmentName(name.base_offset, is_damaged=True)
        if not name.is_damaged:
            self._disk.rename(self._path(str(name)), self._path(str(aside)))
            self._disk.sync_directory(self._directory)
        segment = self._segment(aside, scanned)
        self._add(segment.cut(scanned.tail, path=segment.path))
        if scanned.tail.offset < end:
            self._damages.append(Damage(scanned.tail.offset, end, str(aside), reason))
        self._end_offset = max(end, self._end_offset)

    def _missing(self, end: int, reason: str) -> None:
        name = segment_name(self._end_offset)
        self._damages.append(Damage(self._end_offset, end, name, reason))
        self._end_offset = end

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._end_offset = max(self._end_offset, segment.end_offset)

    def _latest_ms(self) -> int:
        return max((segment.tail.timestamp_ms for segment in self._segments), default=0)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


def _writers(checkpoint: Checkpoint | None, *, kept_max: int) -> Writers:
    if checkpoint is None:
        return Writers({}, kept_max=kept_max)
    return Writers(checkpoint.writers, kept_max=kept_max, owners=checkpoint.owners)


def remove_segment(disk: Disk, directory: str, name: SegmentName) -> None:
    """Unlink a segment and its index; a damaged one stays for inspection."""
    if name.is_damaged:
        return
    for each in (str(name), index_name(name.base_offset)):
        remove_file(disk, f"{directory}/{each}")


def remove_file(disk: Disk, path: str) -> None:
    """Unlink a file, unless it is gone already."""
    try:
        disk.unlink(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def _starts_right(file: File, name: SegmentName) -> bool:
    window = Window(file, end=file.size, chunk_bytes=HEADER_BYTES)
    return not isinstance(window.step(0, name.base_offset), BadPlace)


def _indexed(path: str, index: Sequence[Mark]) -> Segment:
    size = index[-1].position
    return Segment(
        path=path, marks=list(index[:-1]), tail=index[-1], verified_from=size, is_indexed=True
    )
