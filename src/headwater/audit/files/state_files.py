"""The files of one bucket's state: which there are, and whether they are whole."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.audit.files.bucket_notes import BucketNotes
from headwater.audit.files.stream import CHUNK_BYTES
from headwater.audit.finding import Check
from headwater.errors import CorruptFileError
from headwater.kv.snapshot import SegmentFile, Snapshot, decode_snapshot
from headwater.kv.store import SNAPSHOTS_KEPT
from headwater.rows.checksum import crc32c_of_parts
from headwater.rows.row_bytes import PADDING
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, File

_NAME = re.compile(r"(segment|snapshot)-(\d{16})(\.damaged)?")
_ASIDE = re.compile(r".*\.(cut|aside)-\d+")
# What a checksum cannot rule out: a file that was never written in this form.
_UNREADABLE = (CorruptFileError, OSError, ValueError, LookupError, TypeError)
SET_ASIDE = "The next start sets it aside and takes an older snapshot, or builds the rows from"
SET_ASIDE += " the log."


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotSeen:
    """Hold a snapshot whose file can be read."""

    serial: int
    snapshot: Snapshot


class StateFiles:
    """Look at the files of a state, and note those that are bad or left over."""

    def __init__(self, disk: Disk, directory: str, notes: BucketNotes) -> None:
        self._disk = disk
        self._directory = directory
        self._notes = notes
        self._names = disk.listdir(directory)
        self._is_whole: dict[tuple[int, int, int], bool] = {}

    def snapshots(self) -> list[SnapshotSeen]:
        """Return the snapshots that are kept and whole, newest first."""
        serials = sorted(self._serials("snapshot"), reverse=True)
        kept, whole = [], []
        for serial in serials[:SNAPSHOTS_KEPT]:
            snapshot = self._snapshot(serial)
            if snapshot is not None:
                kept.append(snapshot)
                if self._has_rows(serial, snapshot):
                    whole.append(SnapshotSeen(serial, snapshot))
        self._note_leftovers(kept, old=serials[SNAPSHOTS_KEPT:])
        return whole

    def path(self, kind: str, serial: int) -> str:
        """Return the path of a file."""
        return f"{self._directory}/{kind}-{serial:016d}"

    def _serials(self, kind: str) -> Iterator[int]:
        for match in filter(None, map(_NAME.fullmatch, self._names)):
            if match[1] == kind and match[3] is None:
                yield int(match[2])

    def _snapshot(self, serial: int) -> Snapshot | None:
        path = self.path("snapshot", serial)
        self._notes.tally.add(Check.FILES, 1, unit="files")
        try:
            file = self._disk.open(path)
            return decode_snapshot(file.read(0, file.size))
        except _UNREADABLE as fault:
            message = f"{path} is damaged: {fault}"
            self._notes.error(Check.CHECKSUMS, message, remedy=SET_ASIDE)
            return None

    def _has_rows(self, serial: int, snapshot: Snapshot) -> bool:
        """Tell whether all segments that a snapshot names are there and whole."""
        bad = [each for each in snapshot.segments if not self._is_good(each, serial)]
        return not bad

    def _is_good(self, described: SegmentFile, snapshot: int) -> bool:
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

    def _fault(self, described: SegmentFile) -> str:
        try:
            file = self._disk.open(self.path("segment", described.serial))
            if file.size != described.end + PADDING:
                return f"has {file.size} bytes instead of {described.end + PADDING}"
            return "" if _crc(file, described.end) == described.crc else "has a wrong checksum"
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read: {error}"

    def _note_leftovers(self, kept: list[Snapshot], *, old: list[int]) -> None:
        named = {each.serial for snapshot in kept for each in snapshot.segments}
        # What a damaged snapshot named is not known, so nothing can be called left over.
        is_known = len(kept) == min(len([*self._serials("snapshot")]), SNAPSHOTS_KEPT)
        # Segments are written before the snapshot that is going to name them, which a storage that
        # is closed may never take: the log has their rows.
        newest = max(self._serials("snapshot"), default=-1)
        older = {each for each in self._serials("segment") if each < newest}
        unnamed = older - named if is_known else set()
        left = [
            *(("segment", each) for each in sorted(unnamed)),
            *(("snapshot", each) for each in old),
        ]
        if left:
            first = self.path(*left[0])
            message = f"{len(left)} files are named by no snapshot that counts: {first}"
            message += "." if len(left) == 1 else " and others."
            self._notes.warning(Check.FILES, message, remedy="The next start removes them.")
        for name in self._names:
            self._note_other(name)

    def _note_other(self, name: str) -> None:
        path, match = f"{self._directory}/{name}", _NAME.fullmatch(name)
        if name.endswith(TEMPORARY_SUFFIX):
            remedy = "The next start removes it."
            self._notes.warning(Check.FILES, f"{path} was not finished.", remedy=remedy)
        elif match is not None and match[3]:
            message = f"{path} was damaged, or ahead of its log, and was set aside."
            remedy = "The rows were taken from elsewhere; delete it once you looked at it."
            self._notes.warning(Check.FILES, message, remedy=remedy)
        elif match is None and not _ASIDE.fullmatch(name):
            message = f"{path} is no file of a state."
            self._notes.warning(Check.FILES, message, remedy="Move it away.")


def _crc(file: File, end: int) -> int:
    return crc32c_of_parts(
        file.read(position, min(CHUNK_BYTES, end - position))
        for position in range(0, end, CHUNK_BYTES)
    )
