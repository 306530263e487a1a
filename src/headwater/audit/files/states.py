"""The state of one bucket of a primary-key table, read from its files."""

import pyarrow as pa

from headwater.audit.files.bucket_notes import BucketNotes
from headwater.audit.files.catalog_seen import TableSeen
from headwater.audit.files.fingerprints import Fingerprints
from headwater.audit.files.folding import Fold, difference
from headwater.audit.files.logs import LogSeen
from headwater.audit.files.segment_walk import walk
from headwater.audit.files.state_files import SnapshotSeen, StateFiles
from headwater.audit.files.state_rows import StateRows
from headwater.audit.files.stream import Stream
from headwater.audit.finding import Check
from headwater.errors import HeadwaterError
from headwater.log.mark import Mark
from headwater.rows.log_batch import BatchHeader
from headwater.store.disk import Disk

REBUILD_STATE = "--rebuild-state"


def audit_state(
    disk: Disk,
    directory: str,
    log: LogSeen,
    *,
    table: TableSeen | None,
    notes: BucketNotes,
    deep: bool,
) -> None:
    """Look at the files of a state.

    1. read snapshots and segments  2. compare offsets with those of the log
    3. deep: read every row, and compare them with the fold of the log
    """
    files = StateFiles(disk, directory, notes)
    audit = _StateAudit(disk, files, log, notes=notes)
    snapshots = [each for each in files.snapshots() if audit.is_within_log(each)]
    audit.check_rebuild(snapshots)
    if not deep:
        return
    rows = [(each, found) for each in snapshots if (found := audit.rows(each)) is not None]
    if table is not None and rows:
        audit.compare(rows, Fingerprints(table))


def check_without_files(log: LogSeen, notes: BucketNotes) -> None:
    """Check that a bucket without any files of a state can be opened."""
    _note_rebuild(log, notes, offset=0, what="there is no snapshot")


class _StateAudit:
    """Compare the snapshots of one bucket with its log."""

    def __init__(self, disk: Disk, files: StateFiles, log: LogSeen, *, notes: BucketNotes) -> None:
        self._disk = disk
        self._files = files
        self._log = log
        self._notes = notes

    def is_within_log(self, seen: SnapshotSeen) -> bool:
        """Tell whether the log reaches as far as a snapshot."""
        offset = seen.snapshot.offset
        if offset > self._log.end_offset:
            self._notes.error(
                Check.STATE,
                f"{self._path(seen)} is of offset {offset}, but the log ends at"
                f" {self._log.end_offset}: changes that were durable are gone.",
                offset=self._log.end_offset,
                remedy="Restore the log from a copy; without one, the next start sets the snapshot"
                " aside and goes on from the log.",
            )
            return False
        return True

    def check_rebuild(self, snapshots: list[SnapshotSeen]) -> None:
        """Check that the rows can be built from the newest snapshot and the log."""
        if snapshots:
            newest = snapshots[0].snapshot.offset
            _note_rebuild(
                self._log, self._notes, offset=newest, what=f"the snapshot is of {newest}"
            )
        else:
            _note_rebuild(self._log, self._notes, offset=0, what="no snapshot is whole")

    def rows(self, seen: SnapshotSeen) -> StateRows | None:
        """Return the rows of a snapshot, if each is where it should be."""
        snapshot = seen.snapshot
        paths = [self._files.path("segment", each.serial) for each in snapshot.segments]
        rows = StateRows.of(snapshot, [self._disk.map(path) for path in paths])
        fault = rows.fault()
        wrong = 0 if fault else sum(int((~is_right).sum()) for _, is_right in rows.chunks())
        if fault or wrong:
            self._wrong(seen, fault or f"{wrong} rows are found by keys that are not theirs")
            return None
        self._notes.tally.add(Check.LOOKUPS, len(rows.locations()), unit="rows")
        return rows

    def compare(self, found: list[tuple[SnapshotSeen, StateRows]], prints: Fingerprints) -> None:
        """Compare the newest snapshot with the log folded up to it."""
        (seen, rows), *older = found
        try:
            fold = self._start(older, prints, up_to=seen.snapshot.offset)
            if fold is None:
                note = f"the log begins at {self._log.start_offset} or has holes"
                self._notes.tally.add(Check.STATE, 0, unit="rows", note=f"{note}: not folded")
                return
            held = _held(rows, prints)
            differs = difference(fold.result(), held.result())
        except (HeadwaterError, pa.ArrowException) as fault:
            self._wrong(seen, f"its rows cannot be compared: {fault}")
            return
        if differs:
            self._wrong(
                seen,
                f"the log has {differs.missing} rows that it lacks, lacks {differs.extra} that it"
                f" has, and {differs.other} rows differ",
            )
        self._notes.tally.add(Check.STATE, len(held.keys), unit="rows")

    def _start(
        self, older: list[tuple[SnapshotSeen, StateRows]], prints: Fingerprints, *, up_to: int
    ) -> Fold | None:
        """Fold the log, from its first offset or else from the rows of an older snapshot."""
        starts = [(0, None), *((each.snapshot.offset, rows) for each, rows in older)]
        for offset, rows in starts:
            if self._log.start_offset <= offset and self._log.whole_end(offset) >= up_to:
                fold = Fold() if rows is None else _held(rows, prints)
                self._replay(fold, prints, start=offset, end=up_to)
                return fold
        return None

    def _replay(self, fold: Fold, prints: Fingerprints, *, start: int, end: int) -> None:
        def take(header: BatchHeader, batch: memoryview) -> None:
            if start <= header.base_offset < end:
                fold.take(*prints.of_changes(header, batch))

        for segment in self._log.segments:
            if segment.base_offset < end and segment.end.offset > start:
                stream = Stream(self._disk.open(segment.path))
                walk(stream, start=Mark(segment.base_offset, 0, 0), visit=take)

    def _wrong(self, seen: SnapshotSeen, what: str) -> None:
        self._notes.error(
            Check.STATE,
            f"{self._path(seen)}: {what}.",
            offset=seen.snapshot.offset,
            remedy=f"Build the rows from the log: {self._notes.repair(REBUILD_STATE)}",
        )

    def _path(self, seen: SnapshotSeen) -> str:
        return self._files.path("snapshot", seen.serial)


def _held(rows: StateRows, prints: Fingerprints) -> Fold:
    """Return the rows of a snapshot as if they had been folded."""
    fold = Fold()
    for records, is_right in rows.chunks():
        fold.take(*prints.of_state(records), ~is_right)
    return fold


def _note_rebuild(log: LogSeen, notes: BucketNotes, *, offset: int, what: str) -> None:
    if offset < log.start_offset:
        notes.error(
            Check.STATE,
            f"The rows cannot be rebuilt: the log begins at {log.start_offset}, and {what}.",
            offset=log.start_offset,
            remedy="Restore the files of the bucket's kv directory from a copy.",
        )
    elif (hole := log.whole_end(offset)) < log.end_offset:
        notes.error(
            Check.STATE,
            f"The rows cannot be rebuilt: {what}, and the log lacks offset {hole}.",
            offset=hole,
            remedy="Restore the segment from a copy; to give up that offset and all after it:"
            f" {notes.repair(f'--cut-at {hole}')}"
            if hole >= notes.tiered_end
            else "Restore the segment, or a newer snapshot, from a copy; the lake holds the bucket"
            f" up to offset {notes.tiered_end}, which can be read with mode='lake'.",
        )
