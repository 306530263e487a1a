"""The log of one bucket, read from its files without opening it."""

from dataclasses import dataclass, field

from headwater.audit.files.bucket_notes import BucketNotes
from headwater.audit.files.log_leftovers import note_leftovers
from headwater.audit.files.search import last_end_behind
from headwater.audit.files.segment_walk import Visit, Walked, walk
from headwater.audit.files.small_files import SmallFiles
from headwater.audit.files.stream import Stream
from headwater.audit.files.trail import Trail
from headwater.audit.files.writer_trail import WriterTrail
from headwater.audit.finding import Check
from headwater.audit.sequences import LOOK_AT_WRITERS
from headwater.log.checkpoint import Checkpoint
from headwater.log.mark import Mark
from headwater.log.names import CHECKPOINT, SegmentName, index_name, segment_names
from headwater.model.bucket import OffsetRange
from headwater.model.lineage import NO_LINEAGE, Lineage
from headwater.rows.changelog import sent_batches
from headwater.rows.log_batch import BatchHeader
from headwater.store.disk import Disk


@dataclass(frozen=True, slots=True)
class SegmentSeen:
    """Hold a segment and where its good part ends."""

    path: str
    base_offset: int
    end: Mark


@dataclass(slots=True)
class LogSeen:
    """Hold what is good of a log, and the ranges of offsets that are not."""

    start_offset: int = 0
    end_offset: int = 0
    writer_blocks: set[int] = field(default_factory=set)
    lineage: Lineage = NO_LINEAGE
    segments: list[SegmentSeen] = field(default_factory=list)
    holes: list[OffsetRange] = field(default_factory=list)

    def whole_end(self, offset: int) -> int:
        """Return how far the log can be read from an offset."""
        ahead = (hole.start for hole in self.holes if hole.end > offset)
        return max(min(ahead, default=self.end_offset), offset)


def audit_log(
    disk: Disk, directory: str, notes: BucketNotes, *, visit: Visit | None = None
) -> LogSeen:
    """Look at all files of a log.

    1. read the small files  2. tell which segments count  3. walk each of them
    4. compare the end and the writers with the checkpoint
    """
    names = disk.listdir(directory)
    small_files = SmallFiles(disk, directory, names, notes=notes)
    audit = _LogAudit(disk, directory, small_files, notes=notes, visit=visit)
    found = audit.counted(segment_names(names))
    note_leftovers(disk, directory, names, counted=found, notes=notes)
    for index, name in enumerate(found):
        following = found[index + 1].base_offset if index + 1 < len(found) else None
        audit.segment(name, following)
    return audit.finish()


class _LogAudit:
    """Follow one log from its first segment to its last."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        small_files: SmallFiles,
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
        """Return the segments of the log; those before its start await their removal."""
        start_offset = self._checkpoint.start_offset if self._checkpoint else None
        while start_offset is not None and len(found) > 1 and found[1].base_offset <= start_offset:
            name = found.pop(0)
            if not name.is_damaged:
                self._notes.warning(
                    Check.FILES,
                    f"{self._path(name)} is left of a log that begins at {start_offset}.",
                    remedy="A crash kept it from being removed; the next start does that.",
                )
        first = found[0].base_offset if found else start_offset or 0
        if start_offset is None:
            start_offset = first
            self._note_start(first)
        self._seen.start_offset = start_offset
        self._seen.end_offset = min(first, start_offset)
        return found

    def segment(self, name: SegmentName, following: int | None) -> None:
        """Look at one segment, and at whether it goes on where the one before ended."""
        expected = self._seen.end_offset
        if name.base_offset > expected:
            self._missing(expected, name.base_offset, "no file holds them")
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
            self._missing(seen.end_offset, known.recovery_offset, "the checkpoint knew of them")
        seen.writer_blocks = self._writers.blocks
        seen.lineage = known.lineage if known is not None else NO_LINEAGE
        for offset, fault in self._writers.finish(
            start_offset=seen.start_offset, end_offset=seen.whole_end(seen.start_offset)
        ):
            self._notes.error(
                Check.OFFSETS,
                fault,
                offset=offset,
                remedy="Compare the rows around the offset with those of the writer; what the"
                f" checkpoint knows of writers is rebuilt by:"
                f" {self._notes.repair('--rebuild-index')}",
            )
        for offset, text in self._writers.restarts:
            self._notes.warning(Check.OFFSETS, text, offset=offset, remedy=LOOK_AT_WRITERS)
        return seen

    # ---- one segment

    def _walk(self, name: SegmentName, stream: Stream, index: tuple[Mark, ...]) -> Walked:
        trails = [Trail(index_name(name.base_offset), index)] if index else []
        known = self._checkpoint
        if known is not None and known.segment_base == name.base_offset:
            trails.append(Trail(CHECKPOINT, known.marks))
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
            reason = walked.bad or "no file goes on there"
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
        """Return the highest offset that something says the segment reached."""
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
            remedy=f"Restore the file in log/{self._directory} from a copy, or go on reading at"
            f" {end}; {self._notes.cure(OffsetRange(start, end))}",
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
            f"{self._path(name)} ends in {stream.size - walked.end.position} bytes that are no"
            f" batch: {walked.bad}",
            offset=walked.end.offset,
            remedy="A crash left them before anyone was told that they are written; the next"
            " start cuts them off and keeps a copy.",
        )

    def _odd(self, name: SegmentName, walked: Walked) -> None:
        self._notes.warning(
            Check.FILES,
            f"{self._path(name)} lacks no offset, but {walked.bad or 'is named as damaged'}.",
            offset=walked.end.offset,
            remedy="Nothing is missing; move what is not needed away once you looked at it.",
        )

    def _index_off(self, name: SegmentName, last: Mark, end: Mark) -> None:
        self._notes.error(
            Check.CHECKSUMS,
            f"{index_name(name.base_offset)} ends at byte {last.position}, its segment at"
            f" {end.position}.",
            offset=last.offset,
            remedy=f"Rebuild it: {self._notes.repair('--rebuild-index')}",
        )

    def _note_start(self, first: int) -> None:
        if first:
            self._notes.warning(
                Check.OFFSETS,
                f"The log begins at offset {first}, and no checkpoint says that this is right.",
                offset=first,
                remedy="If rows before it were not to expire yet, restore their segments from a"
                " copy.",
            )

    def _tally(self, walked: Walked) -> None:
        tally = self._notes.tally
        tally.add(Check.OFFSETS, walked.rows, unit="rows")
        tally.add(Check.CHECKSUMS, walked.batches, unit="batches")
        tally.add(Check.FILES, 1, unit="files")

    def _path(self, name: SegmentName) -> str:
        return f"{self._directory}/{name}"
