"""Check the state of one bucket of a primary-key table from its files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.audit.files.catalog import TableSeen
from headwater.audit.files.logs import LogSeen
from headwater.audit.files.notes import BucketNotes
from headwater.audit.files.rows import Fingerprints, Fold, difference
from headwater.audit.files.segments import CHUNK_BYTES, Stream, walk
from headwater.audit.report import Check
from headwater.errors import CorruptFileError, HeadwaterError
from headwater.kv import heap, store
from headwater.kv.hashes import hash_keys
from headwater.log.segment import Mark
from headwater.rows.log_batch import BatchHeader
from headwater.rows.row_bytes import PADDING, crc32c_of_parts
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, File

# The files of one bucket's state: which exist, and whether they are complete.

_NAME = re.compile(r"(segment|snapshot)-(\d{16})(\.damaged)?")
_ASIDE = re.compile(r".*\.(cut|aside)-\d+")
# What a checksum cannot rule out: a file that was never written in this form.
_UNREADABLE = (CorruptFileError, OSError, ValueError, LookupError, TypeError)
SET_ASIDE = "The next start sets it aside and uses an older snapshot, or rebuilds the rows from"
SET_ASIDE += " the log."


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotSeen:
    """A snapshot whose file can be read."""

    serial: int
    snapshot: store.Snapshot


class StateFilesSeen:
    """Checks the files of a state, and notes those that are bad or left over."""

    def __init__(self, disk: Disk, directory: str, notes: BucketNotes) -> None:
        self._disk = disk
        self._directory = directory
        self._notes = notes
        self._names = disk.listdir(directory)
        self._is_whole: dict[tuple[int, int, int], bool] = {}

    def snapshots(self) -> list[SnapshotSeen]:
        """The snapshots that are kept and complete, newest first."""
        serials = sorted(self._serials("snapshot"), reverse=True)
        kept, whole = [], []
        for serial in serials[: store.SNAPSHOTS_KEPT]:
            snapshot = self._snapshot(serial)
            if snapshot is not None:
                kept.append(snapshot)
                if self._has_rows(serial, snapshot):
                    whole.append(SnapshotSeen(serial, snapshot))
        self._note_leftovers(kept, old=serials[store.SNAPSHOTS_KEPT :])
        return whole

    def path(self, kind: str, serial: int) -> str:
        """Path of a file."""
        return f"{self._directory}/{kind}-{serial:016d}"

    def _serials(self, kind: str) -> Iterator[int]:
        for match in filter(None, map(_NAME.fullmatch, self._names)):
            if match[1] == kind and match[3] is None:
                yield int(match[2])

    def _snapshot(self, serial: int) -> store.Snapshot | None:
        path = self.path("snapshot", serial)
        self._notes.tally.add(Check.FILES, 1, unit="files")
        try:
            file = self._disk.open(path)
            return store.decode_snapshot(file.read(0, file.size))
        except _UNREADABLE as fault:
            message = f"{path} is damaged: {fault}"
            self._notes.error(Check.CHECKSUMS, message, remedy=SET_ASIDE)
            return None

    def _has_rows(self, serial: int, snapshot: store.Snapshot) -> bool:
        """Tell whether all segments that a snapshot names exist and are complete."""
        bad = [each for each in snapshot.segments if not self._is_good(each, serial)]
        return not bad

    def _is_good(self, described: store.SegmentFile, snapshot: int) -> bool:
        key = (described.serial, described.end, described.crc)
        if key not in self._is_whole:
            fault = self._fault(described)
            self._is_whole[key] = not fault
            self._notes.tally.add(Check.FILES, 1, unit="files")
            if fault:
                path = self.path("segment", described.serial)
                message = f"{path}, which snapshot {snapshot} needs, {fault}."
                self._notes.error(Check.CHECKSUMS, message, remedy=SET_ASIDE)
        return self._is_whole[key]

    def _fault(self, described: store.SegmentFile) -> str:
        try:
            file = self._disk.open(self.path("segment", described.serial))
            if file.size != described.end + PADDING:
                return f"has {file.size} bytes instead of {described.end + PADDING}"
            return "" if _crc(file, described.end) == described.crc else "has a wrong checksum"
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read: {error}"

    def _note_leftovers(self, kept: list[store.Snapshot], *, old: list[int]) -> None:
        named = {each.serial for snapshot in kept for each in snapshot.segments}
        # The segments of a damaged snapshot are unknown, so nothing can be called left over.
        is_known = len(kept) == min(len([*self._serials("snapshot")]), store.SNAPSHOTS_KEPT)
        # Segments are written before the snapshot that will name them, which may never be taken if
        # the storage is closed: the log has their rows.
        newest = max(self._serials("snapshot"), default=-1)
        older = {each for each in self._serials("segment") if each < newest}
        unnamed = older - named if is_known else set()
        left = [
            *(("segment", each) for each in sorted(unnamed)),
            *(("snapshot", each) for each in old),
        ]
        if left:
            first = self.path(*left[0])
            message = f"{len(left)} files are named by no current snapshot: {first}"
            message += "." if len(left) == 1 else " and others."
            self._notes.warning(Check.FILES, message, remedy="The next start removes them.")
        for name in self._names:
            self._note_other(name)

    def _note_other(self, name: str) -> None:
        path, match = f"{self._directory}/{name}", _NAME.fullmatch(name)
        if name.endswith(TEMPORARY_SUFFIX):
            remedy = "The next start removes it."
            self._notes.warning(Check.FILES, f"{path} is incomplete.", remedy=remedy)
        elif match is not None and match[3]:
            message = f"{path} was damaged, or ahead of its log, and was set aside."
            remedy = "The rows came from elsewhere; delete it once you have looked at it."
            self._notes.warning(Check.FILES, message, remedy=remedy)
        elif match is None and not _ASIDE.fullmatch(name):
            message = f"{path} is not a file of a state."
            self._notes.warning(Check.FILES, message, remedy="Move it away.")


def _crc(file: File, end: int) -> int:
    return crc32c_of_parts(
        file.read(position, min(CHUNK_BYTES, end - position))
        for position in range(0, end, CHUNK_BYTES)
    )


# The rows that a snapshot names, read from their segments and checked.

CHUNK_ROWS = 65_536
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StateRows:
    """Reads the rows of a snapshot; `ends` says where the records of each segment end."""

    snapshot: store.Snapshot
    view: heap.HeapView
    ends: Longs

    @classmethod
    def of(cls, snapshot: store.Snapshot, segments: Sequence[memoryview]) -> "StateRows":
        """Take a snapshot with the bytes of the segments that it names, in its order."""
        numbers = [each.number for each in snapshot.segments]
        count = max(numbers, default=-1) + 1
        buffers, ends = [pa.py_buffer(b"")] * count, np.zeros(count, np.int64)
        for described, data in zip(snapshot.segments, segments, strict=True):
            buffers[described.number] = pa.py_buffer(data)
            ends[described.number] = described.end
        return cls(snapshot, heap.HeapView(tuple(buffers)), ends)

    def fault(self) -> str:
        """Say what is wrong with the locations of the rows; empty if nothing."""
        hashes, locations = self.snapshot.hashes, self.locations()
        if len(np.unique(hashes)) != len(hashes):
            return "two rows have the same hash"
        outside = np.flatnonzero(~self._is_inside(locations))
        if len(outside):
            return f"{len(outside)} rows lie outside the segments"
        return ""

    def chunks(self) -> Iterator[tuple[heap.Records, npt.NDArray[np.bool_]]]:
        """Yield all rows, and for each whether its key is the one it is indexed by."""
        hashes, locations = self.snapshot.hashes, self.snapshot.locations
        for first in range(0, len(locations), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            records = self.view.read(locations[part])
            yield records, hash_keys(records.keys, seed=self.snapshot.seed) == hashes[part]
        collided = self.snapshot.collided
        if collided:
            records = self.view.read(np.fromiter(collided.values(), np.int64, len(collided)))
            same = [key == kept for key, kept in zip(records.keys.to_list(), collided, strict=True)]
            yield records, np.array(same)

    def locations(self) -> heap.Locations:
        """Locations of all rows, including those that share a hash."""
        collided = np.fromiter(self.snapshot.collided.values(), np.int64)
        return np.concatenate([self.snapshot.locations, collided])

    def _is_inside(self, locations: heap.Locations) -> npt.NDArray[np.bool_]:
        """Tell which records lie inside their segment; only those may be read."""
        numbers, offsets = heap.segment_of(locations), heap.offset_of(locations)
        inside = (locations >= 0) & (numbers < len(self.ends))
        ends = np.where(inside, self.ends[np.where(inside, numbers, 0)] if len(self.ends) else 0, 0)
        inside &= (offsets >= heap.LEAD) & (offsets + heap.LENGTH_BYTES < ends)
        for first in range(0, len(locations), CHUNK_ROWS):
            part = np.flatnonzero(inside[first : first + CHUNK_ROWS]) + first
            lengths = self.view.lengths(locations[part])
            fits = (lengths > 0) & (offsets[part] + heap.LENGTH_BYTES + lengths <= ends[part])
            inside[part] = fits
        return inside


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
    """Check the files of a state.

    1. read snapshots and segments  2. compare offsets with those of the log
    3. deep: read every row, and compare them with the folded log
    """
    files = StateFilesSeen(disk, directory, notes)
    audit = _StateAudit(disk, files, log, notes=notes)
    snapshots = [each for each in files.snapshots() if audit.is_within_log(each)]
    audit.check_rebuild(snapshots)
    if not deep:
        return
    rows = [(each, found) for each in snapshots if (found := audit.rows(each)) is not None]
    if table is not None and rows:
        audit.compare(rows, Fingerprints(table))


def check_without_files(log: LogSeen, notes: BucketNotes) -> None:
    """Check that a bucket without state files can be opened."""
    _note_rebuild(log, notes, offset=0, what="there is no snapshot")


class _StateAudit:
    """Compares the snapshots of one bucket with its log."""

    def __init__(
        self, disk: Disk, files: StateFilesSeen, log: LogSeen, *, notes: BucketNotes
    ) -> None:
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
                f"{self._path(seen)} has offset {offset}, but the log ends at "
                f"{self._log.end_offset}: durable changes are lost.",
                offset=self._log.end_offset,
                remedy=(
                    "Restore the log from a copy; without one, the next start sets the "
                    "snapshot aside and continues from the log."
                ),
            )
            return False
        return True

    def check_rebuild(self, snapshots: list[SnapshotSeen]) -> None:
        """Check that the rows can be built from the newest snapshot and the log."""
        if snapshots:
            newest = snapshots[0].snapshot.offset
            _note_rebuild(
                self._log,
                self._notes,
                offset=newest,
                what=(f"the newest snapshot has offset {newest}"),
            )
        else:
            _note_rebuild(self._log, self._notes, offset=0, what="no snapshot is complete")

    def rows(self, seen: SnapshotSeen) -> StateRows | None:
        """Read the rows of a snapshot, if each is where it should be."""
        snapshot = seen.snapshot
        paths = [self._files.path("segment", each.serial) for each in snapshot.segments]
        rows = StateRows.of(snapshot, [self._disk.map(path) for path in paths])
        fault = rows.fault()
        wrong = 0 if fault else sum(int((~is_right).sum()) for _, is_right in rows.chunks())
        if fault or wrong:
            self._wrong(seen, fault or (f"{wrong} rows are indexed by another key than their own"))
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
                f"it lacks {differs.missing} rows that the log has, has {differs.extra} "
                f"rows that the log lacks, and {differs.other} rows differ",
            )
        self._notes.tally.add(Check.STATE, len(held.keys), unit="rows")

    def _start(
        self, older: list[tuple[SnapshotSeen, StateRows]], prints: Fingerprints, *, up_to: int
    ) -> Fold | None:
        """Fold the log, from its first offset or from the rows of an older snapshot."""
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
            remedy=f"Rebuild the rows from the log: {self._notes.repair(REBUILD_STATE)}",
        )

    def _path(self, seen: SnapshotSeen) -> str:
        return self._files.path("snapshot", seen.serial)


def _held(rows: StateRows, prints: Fingerprints) -> Fold:
    """The rows of a snapshot as if they had been folded."""
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
            else (
                "Restore the segment, or a newer snapshot, from a copy; the lake holds "
                f"the bucket up to offset {notes.tiered_end}, which can be read with "
                "mode='lake'."
            ),
        )
