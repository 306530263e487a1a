"""Check the log of one bucket from its files, without opening it."""

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headwater.audit.files.notes import BucketNotes
from headwater.audit.files.segments import MarkTrail, Stream, Visit, Walked, last_end_behind, walk
from headwater.audit.report import Check
from headwater.audit.writers import LOOK_AT_WRITERS, WriterTrail
from headwater.errors import CorruptBatchError, CorruptFileError
from headwater.log.segment import (
    CHECKPOINT,
    Mark,
    SegmentName,
    deleted_segments,
    index_name,
    segment_names,
)
from headwater.log.small_files import Checkpoint, decode_checkpoint, decode_index
from headwater.model.bucket import NO_LINEAGE, Lineage, OffsetRange
from headwater.rows.changelog import sent_batches
from headwater.rows.log_batch import HEADER_BYTES, BatchHeader, read_header
from headwater.store.disk import TEMPORARY_SUFFIX, Disk

# Files in a bucket's directory that are not part of its log.

STATE_DIRECTORY = "kv"
_TORN = re.compile(r"\d{20}\.log\.torn-\d+")
_DAMAGED = re.compile(r"\d{20}\.log\.damaged")
_INDEX = re.compile(r"\d{20}\.index")
_SEGMENT = re.compile(r"\d{20}\.log")
_ASIDE = re.compile(r".*\.(cut|aside)-\d+")


def note_leftovers(
    disk: Disk,
    directory: str,
    names: Iterable[str],
    *,
    counted: Sequence[SegmentName],
    notes: BucketNotes,
) -> None:
    """Note every file that the log does not need."""
    used = {CHECKPOINT, STATE_DIRECTORY}
    used |= {str(name) for name in counted} | {index_name(name.base_offset) for name in counted}
    for name in names:
        if name in used or _SEGMENT.fullmatch(name) or _ASIDE.fullmatch(name):
            continue
        if deleted_segments([name]):
            continue  # It stays until its table's 'table.log.delete-delay' is over.
        message, remedy = _described(disk, f"{directory}/{name}", name)
        notes.warning(Check.FILES, f"{directory}/{name} {message}", remedy=remedy)


def _described(disk: Disk, path: str, name: str) -> tuple[str, str]:
    if _TORN.fullmatch(name):
        return (
            f"holds what recovery cut off the log: {_content(disk, path)}.",
            "Delete it once you are sure that no row written shortly before a crash is missing.",
        )
    if _DAMAGED.fullmatch(name):
        return (
            "is a damaged segment that is no longer used: a copy exists, or the log has moved on.",
            "Delete it once you have looked at it.",
        )
    if _INDEX.fullmatch(name):
        return "is an index without a segment.", ("Delete it: a crash interrupted retention.")
    if name.endswith(TEMPORARY_SUFFIX):
        return "is incomplete.", "The next start removes it."
    return "is not a file of a log.", "Move it away."


def _content(disk: Disk, path: str) -> str:
    """Describe a piece of a segment by its first batch."""
    try:
        file = disk.open(path)
        header = read_header(file.read(0, HEADER_BYTES))
    except (CorruptBatchError, OSError):
        return "bytes that do not begin with a batch"
    return (
        f"{file.size} bytes, starting at offset {header.base_offset} with a batch of "
        f"{header.size} bytes"
    )


# The checkpoint and the indexes of a bucket, as far as they can be read.

T = TypeVar("T")
REBUILD_INDEX = "--rebuild-index"


class SideFiles:
    """Reads the small files next to the segments of a bucket, and notes bad ones."""

    def __init__(
        self, disk: Disk, directory: str, names: Sequence[str], *, notes: BucketNotes
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._names = frozenset(names)
        self._notes = notes

    def checkpoint(self) -> Checkpoint | None:
        """Read the checkpoint; None if it is missing or bad."""
        return self._read(CHECKPOINT, decode_checkpoint)

    def index(self, base_offset: int) -> tuple[Mark, ...]:
        """Read the marks of a segment's index; empty if it is missing or bad."""
        name = index_name(base_offset)
        marks = self._read(name, decode_index) or ()
        if marks and (marks[0].offset, marks[0].position) != (base_offset, 0):
            self._bad(name, f"It begins at offset {marks[0].offset}.")
            return ()
        return marks

    def _read(self, name: str, decode: Callable[[bytes], T]) -> T | None:
        if name not in self._names:
            return None
        try:
            file = self._disk.open(f"{self._directory}/{name}")
            content = file.read(0, file.size)
            self._notes.tally.add(Check.FILES, 1, unit="files")
            return decode(content)
        except (CorruptFileError, struct.error, OSError) as fault:
            self._bad(name, str(fault))
            return None

    def _bad(self, name: str, reason: str) -> None:
        self._notes.error(
            Check.CHECKSUMS,
            f"{self._directory}/{name} is damaged: {reason}",
            remedy=(
                "The next start ignores it and reads the segments instead; to set it "
                f"aside now: {self._notes.repair(REBUILD_INDEX)}"
            ),
        )


@dataclass(frozen=True, slots=True)
class SegmentSeen:
    """A segment and where its good part ends."""

    path: str
    base_offset: int
    end: Mark


@dataclass(slots=True)
class LogSeen:
    """The good part of a log, and the offsets that are damaged."""

    start_offset: int = 0
    end_offset: int = 0
    writer_blocks: set[int] = field(default_factory=set)
    lineage: Lineage = NO_LINEAGE
    segments: list[SegmentSeen] = field(default_factory=list)
    holes: list[OffsetRange] = field(default_factory=list)

    def whole_end(self, offset: int) -> int:
        """How far the log can be read from an offset."""
        ahead = (hole.start for hole in self.holes if hole.end > offset)
        return max(min(ahead, default=self.end_offset), offset)


def audit_log(
    disk: Disk, directory: str, notes: BucketNotes, *, visit: Visit | None = None
) -> LogSeen:
    """Check all files of a log.

    1. read the small files  2. find out which segments count  3. walk each of them
    4. compare the end and the writers with the checkpoint
    """
    names = disk.listdir(directory)
    small_files = SideFiles(disk, directory, names, notes=notes)
    audit = _LogAudit(disk, directory, small_files, notes=notes, visit=visit)
    found = audit.counted(segment_names(names))
    note_leftovers(disk, directory, names, counted=found, notes=notes)
    for index, name in enumerate(found):
        following = found[index + 1].base_offset if index + 1 < len(found) else None
        audit.segment(name, following)
    return audit.finish()


class _LogAudit:
    """Follows one log from its first segment to its last."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        small_files: SideFiles,
        *,
        notes: BucketNotes,
        visit: Visit | None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._small_files = small_files
        self._notes = notes
        self._visit = visit
        self._checkpoint: Checkpoint | None = small_files.checkpoint()
        self._writers = WriterTrail(self._checkpoint)
        self._seen = LogSeen()
        self._latest_ms = 0

    def counted(self, found: list[SegmentName]) -> list[SegmentName]:
        """The segments of the log; those before its start are about to be removed."""
        start_offset = self._checkpoint.start_offset if self._checkpoint else None
        while start_offset is not None and len(found) > 1 and found[1].base_offset <= start_offset:
            name = found.pop(0)
            if not name.is_damaged:
                self._notes.warning(
                    Check.FILES,
                    f"{self._path(name)} is left over from before the log start {start_offset}.",
                    remedy="A crash interrupted its removal; the next start removes it.",
                )
        first = found[0].base_offset if found else start_offset or 0
        if start_offset is None:
            start_offset = first
            self._note_start(first)
        self._seen.start_offset = start_offset
        self._seen.end_offset = min(first, start_offset)
        return found

    def segment(self, name: SegmentName, following: int | None) -> None:
        """Check one segment, and whether it continues where the one before ended."""
        expected = self._seen.end_offset
        if name.base_offset > expected:
            self._missing(expected, name.base_offset, "no file contains them")
        index = self._small_files.index(name.base_offset)
        try:
            stream = Stream(self._disk.open(self._path(name)))
        except OSError as error:
            self._missing(name.base_offset, following or name.base_offset + 1, str(error))
            return
        walked = self._walk(name, stream, index)
        self._seen.segments.append(SegmentSeen(self._path(name), name.base_offset, walked.end))
        self._judge(name, stream, walked, following=following, index=index)
        self._tally(walked)

    def finish(self) -> LogSeen:
        """Compare the end of the log and its writers with the checkpoint."""
        seen, known = self._seen, self._checkpoint
        if known is not None and known.recovery_offset > seen.end_offset:
            self._missing(seen.end_offset, known.recovery_offset, "the checkpoint recorded them")
        seen.writer_blocks = self._writers.blocks
        seen.lineage = known.lineage if known is not None else NO_LINEAGE
        for offset, fault in self._writers.finish(
            start_offset=seen.start_offset, end_offset=seen.whole_end(seen.start_offset)
        ):
            self._notes.error(
                Check.OFFSETS,
                fault,
                offset=offset,
                remedy=(
                    "Compare the rows around the offset with those of the writer; to "
                    "rebuild what the checkpoint knows about writers: "
                    f"{self._notes.repair('--rebuild-index')}"
                ),
            )
        for offset, text in self._writers.restarts:
            self._notes.warning(Check.OFFSETS, text, offset=offset, remedy=LOOK_AT_WRITERS)
        return seen

    # ---- one segment

    def _walk(self, name: SegmentName, stream: Stream, index: tuple[Mark, ...]) -> Walked:
        trails = [MarkTrail(index_name(name.base_offset), index)] if index else []
        known = self._checkpoint
        if known is not None and known.segment_base == name.base_offset:
            trails.append(MarkTrail(CHECKPOINT, known.marks))
        start = Mark(name.base_offset, 0, self._latest_ms)
        return walk(stream, start=start, trails=trails, visit=self._take)

    def _take(self, header: BatchHeader, batch: memoryview) -> None:
        for each, checksum in sent_batches(batch, header):
            self._writers.take(each, checksum)
        if self._visit is not None:
            self._visit(header, batch)

    def _judge(
        self,
        name: SegmentName,
        stream: Stream,
        walked: Walked,
        *,
        following: int | None,
        index: tuple[Mark, ...],
    ) -> None:
        end = walked.end
        known_end = following or self._known_end(name, stream, walked, index=index)
        if following is not None and end.offset > following:
            self._overlap(name, end.offset, following)
            return
        if end.offset < known_end:
            reason = walked.bad or "no file continues there"
            self._missing(end.offset, known_end, f"{name}: {reason}")
            return
        if walked.bad and following is None and not name.is_damaged:
            self._torn(name, stream, walked)
        elif walked.bad or name.is_damaged:
            self._odd(name, walked)
        elif index and index[-1].position != end.position:
            self._index_off(name, index[-1], end)
        self._seen.end_offset = max(end.offset, self._seen.end_offset)
        self._latest_ms = end.timestamp_ms

    def _known_end(
        self, name: SegmentName, stream: Stream, walked: Walked, *, index: tuple[Mark, ...]
    ) -> int:
        """The highest offset that the segment is known to have reached."""
        known = [index[-1].offset] if index else []
        if self._checkpoint is not None and self._checkpoint.segment_base == name.base_offset:
            known.append(self._checkpoint.recovery_offset)
        if walked.bad:
            behind = last_end_behind(stream, position=walked.end.position, offset=walked.end.offset)
            known.append(behind or 0)
        return max(known, default=0)

    # ---- what may be wrong

    def _missing(self, start: int, end: int, reason: str) -> None:
        self._seen.holes.append(OffsetRange(start, end))
        self._writers.lose()
        self._latest_ms = 0
        self._seen.end_offset = end
        self._notes.error(
            Check.OFFSETS,
            f"Offsets {start} to {end - 1} cannot be read: {reason}",
            offset=start,
            remedy=(
                f"Restore the file in log/{self._directory} from a copy, or continue "
                f"reading at {end}; {self._notes.cure(OffsetRange(start, end))}"
            ),
        )

    def _overlap(self, name: SegmentName, end: int, following: int) -> None:
        self._seen.end_offset, self._latest_ms = following, 0
        self._notes.error(
            Check.OFFSETS,
            f"Offsets {following} to {end} are in two files, {name} and the one after it.",
            offset=following,
            remedy="Find out which file was copied here from elsewhere, and move it away.",
        )

    def _torn(self, name: SegmentName, stream: Stream, walked: Walked) -> None:
        self._notes.warning(
            Check.CHECKSUMS,
            f"{self._path(name)} ends in {stream.size - walked.end.position} bytes that "
            f"are not a batch: {walked.bad}",
            offset=walked.end.offset,
            remedy=(
                "A crash interrupted the write before it was acknowledged; the next "
                "start cuts the bytes off and keeps a copy."
            ),
        )

    def _odd(self, name: SegmentName, walked: Walked) -> None:
        self._notes.warning(
            Check.FILES,
            f"{self._path(name)} lacks no offset, but {walked.bad or 'is named as damaged'}.",
            offset=walked.end.offset,
            remedy=("Nothing is missing; move away what is not needed once you have looked at it."),
        )

    def _index_off(self, name: SegmentName, last: Mark, end: Mark) -> None:
        self._notes.error(
            Check.CHECKSUMS,
            f"{index_name(name.base_offset)} ends at byte {last.position}, but its "
            f"segment at {end.position}.",
            offset=last.offset,
            remedy=f"Rebuild it: {self._notes.repair('--rebuild-index')}",
        )

    def _note_start(self, first: int) -> None:
        if first:
            self._notes.warning(
                Check.OFFSETS,
                f"The log begins at offset {first}, but no checkpoint confirms that.",
                offset=first,
                remedy=(
                    "If rows before it should not have expired yet, restore their "
                    "segments from a copy."
                ),
            )

    def _tally(self, walked: Walked) -> None:
        tally = self._notes.tally
        tally.add(Check.OFFSETS, walked.rows, unit="rows")
        tally.add(Check.CHECKSUMS, walked.batches, unit="batches")
        tally.add(Check.FILES, 1, unit="files")

    def _path(self, name: SegmentName) -> str:
        return f"{self._directory}/{name}"
