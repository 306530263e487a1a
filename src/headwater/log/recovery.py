"""Bring a bucket's directory back to a log that can be trusted."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.log.checkpoint import Checkpoint
from headwater.log.mark import Mark
from headwater.log.names import (
    SegmentName,
    index_name,
    segment_name,
    segment_names,
    torn_name,
)
from headwater.log.salvage import last_offset_seen
from headwater.log.scan import Scanned, scan
from headwater.log.segment import Damage, Segment, new_segment
from headwater.log.settings import LogSettings
from headwater.log.small_files import SmallFiles
from headwater.log.window import Bad, Window
from headwater.log.writers import Writers
from headwater.rows.changelog import sent_batches
from headwater.rows.log_batch import HEADER_BYTES, BatchHeader
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, File


@dataclass(frozen=True, slots=True)
class Recovered:
    """Hold a log as it was found; the last segment is the active one."""

    start_offset: int
    segments: tuple[Segment, ...]
    writers: Writers
    damages: tuple[Damage, ...]
    repairs: tuple[str, ...]
    checkpoint: Checkpoint | None


def recover(disk: Disk, directory: str, settings: LogSettings) -> Recovered:
    """Open the directory of a bucket, mending what a crash can do and setting aside the rest.

    1. finish what a crash interrupted: temporary files, segments before the log start
    2. examine each segment, oldest first
    3. make sure that the log goes on after everything that was ever seen
    """
    disk.make_directories(directory)
    recovery = _Recovery(disk, directory, settings)
    found = recovery.tidy()
    for index, name in enumerate(found):
        following = found[index + 1].base_offset if index + 1 < len(found) else None
        recovery.examine(name, following)
    return recovery.finish()


class _Recovery:
    """Collect what is found out about a bucket."""

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
        """Remove leftovers and return the segments that count."""
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
        """Take one segment into the log, or what is good of it."""
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
        """Make sure of an active segment after everything that was ever seen."""
        if self._checkpoint and self._checkpoint.recovery_offset > self._end_offset:
            self._missing(self._checkpoint.recovery_offset, "the file is missing or cut")
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
        )

    def _known_end(self, name: SegmentName, index: Sequence[Mark]) -> int | None:
        """Return where a segment ended that was sealed, though the one after it is missing."""
        if self._checkpoint and self._checkpoint.segment_base > name.base_offset:
            return self._checkpoint.segment_base
        return index[-1].offset if index else None

    def _can_trust(
        self, index: tuple[Mark, ...], name: SegmentName, file: File, following: int | None
    ) -> bool:
        """Tell whether a sealed segment from before the checkpoint looks as its index says."""
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
            reason = "it reaches into the segment after it"
        if name.is_damaged or reason:
            self._set_aside(name, scanned, reason=reason, end=following)
            return
        # If it ends before the next one starts, nothing is wrong with this file: one is missing.
        self._add(self._segment(name, scanned))

    def _take_last(self, name: SegmentName, file: File, index: Sequence[Mark]) -> None:
        scanned = self._scan(name, file, index)
        known = self._checkpoint.recovery_offset if self._checkpoint else 0
        rest = file.read(scanned.tail.position, file.size - scanned.tail.position)
        seen = last_offset_seen(rest, offset=scanned.tail.offset) or 0
        if name.is_damaged or seen or scanned.tail.offset < known:
            end = max(seen, known, scanned.tail.offset)
            reason = scanned.bad or "it is shorter than at its checkpoint"
            self._set_aside(name, scanned, reason=reason, end=end)
            return
        if rest:
            self._cut_tail(name, file, scanned=scanned, rest=rest)
        segment = self._segment(name, scanned)
        segment.file = file
        # Whoever created it may have been killed before its name was durable.
        segment.is_named = False
        segment.written_from = segment.size
        # Only data written by this process is certain to be in memory; the mark tells it apart.
        if segment.size > segment.marks[-1].position:
            segment.marks.append(segment.tail)
            segment.tail = replace(segment.tail, chain=0)
        self._add(segment)

    def _scan(self, name: SegmentName, file: File, index: Sequence[Mark]) -> Scanned:
        """Check a segment, from the checkpoint if that lies in it and the file reaches it."""
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
        """Learn the writers of batches that the checkpoint does not know."""
        if self._checkpoint is None or header.base_offset >= self._checkpoint.recovery_offset:
            for each, checksum in sent_batches(batch, header):
                self._writers.record(
                    each,
                    base_offset=each.base_offset,
                    timestamp_ms=each.commit_timestamp,
                    checksum=checksum,
                )

    def _cut_tail(self, name: SegmentName, file: File, *, scanned: Scanned, rest: bytes) -> None:
        """Cut what a crash left unfinished, after copying it unless it is all zeros."""
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
        """Keep serving the good part of a damaged segment under a name that says so."""
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
    """Unlink a segment with its index; a damaged one stays for whoever looks into it."""
    if name.is_damaged:
        return
    for each in (str(name), index_name(name.base_offset)):
        try:
            disk.unlink(f"{directory}/{each}")
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise


def _starts_right(file: File, name: SegmentName) -> bool:
    window = Window(file, end=file.size, chunk_bytes=HEADER_BYTES)
    return not isinstance(window.step(0, name.base_offset), Bad)


def _indexed(path: str, index: Sequence[Mark]) -> Segment:
    size = index[-1].position
    return Segment(
        path=path, marks=list(index[:-1]), tail=index[-1], verified_from=size, is_indexed=True
    )
