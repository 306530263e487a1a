"""The files of one bucket's state: segments of rows, and snapshots that name them.

Every file is written once, whole. Only a snapshot makes segments count: what no kept snapshot
names is left over from a crash and is removed.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from headwater.errors import CorruptFileError, KvStorageError
from headwater.kv.heap import LEAD, Segment
from headwater.kv.snapshot import SegmentFile, Snapshot, decode_snapshot, encode_snapshot
from headwater.rows.checksum import crc32c, crc32c_of_parts
from headwater.rows.row_bytes import PADDING
from headwater.runtime.events import Events
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, File, is_passing

SNAPSHOTS_KEPT = 2
READ_BYTES = 8 << 20
_events = Events("kv")
_NAME = re.compile(r"(segment|snapshot)-(\d{16})(\.damaged)?")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Hold a snapshot that is whole, with its segments by number."""

    snapshot: Snapshot
    segments: dict[int, Segment]


class KvStore:
    """Write and read the files of one bucket's state; one thread at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._kept: dict[int, Snapshot] = {}
        self._next_serial = 0
        self._is_fenced = False
        self.faults: list[str] = []

    @property
    def rebuild_offset(self) -> int:
        """Return the offset from which the log is needed to build the state again."""
        return min((snapshot.offset for snapshot in self._kept.values()), default=0)

    def names_all(self, serials: Collection[int | None]) -> bool:
        """Tell whether the newest snapshot names exactly these segments."""
        if not self._kept:
            return False
        return {each.serial for each in self._kept[max(self._kept)].segments} == {*serials}

    def load(self, *, offset_min: int = 0, offset_max: int) -> Loaded | None:
        """Return the newest snapshot that is whole; what is damaged is set aside.

        A snapshot beyond the end of its log is not taken: the log is the truth. One before the
        start of its log is of no use beside a newer one.

        Nothing is removed: should the rows be lost, what is left of them is not.
        """
        self._disk.make_directories(self._directory)
        names = self._disk.listdir(self._directory)
        serials = [int(match[2]) for match in map(_NAME.fullmatch, names) if match]
        self._next_serial = max(serials, default=-1) + 1
        loaded = None
        for serial in sorted(_serials(names, "snapshot"), reverse=True):
            found = self._load(serial)
            if found is not None and found.snapshot.offset > offset_max:
                self._set_aside(self._path("snapshot", serial), "Its log ends before it.")
            elif found is not None and (loaded is None or found.snapshot.offset >= offset_min):
                self._kept[serial] = found.snapshot
                loaded = loaded or found
            elif found is None and loaded is None:
                self.faults.append(f"Snapshot {serial} is not whole.")
        return loaded

    def tidy(self) -> None:
        """Remove what no snapshot names, once the rows are known to be safe without it."""
        self._remove_unnamed(in_use=())

    def write(self, segment: Segment) -> None:
        """Write a sealed segment to a file and read it from there from now on.

        It is durable before it is read from there: where a sync fails, memory still has it.
        """
        serial = self._take_serial()
        path = self._path("segment", serial)
        segment.crc = crc32c(segment.view[: segment.end])
        file = self._disk.create(path)
        file.append([segment.view[: segment.end + PADDING]])
        file.sync()
        segment.use(np.frombuffer(self._disk.map(path), np.uint8))
        segment.serial = serial

    def save(self, snapshot: Snapshot, *, in_use: Collection[int]) -> None:
        """Make a snapshot count, then forget older ones and the files that only they name.

        1. make the names of its segments durable  2. put the snapshot in place
        3. remove what is not needed
        """
        if self._is_fenced:
            raise KvStorageError(
                "No snapshots are taken since a sync failed.",
                hint="Check the disk, then restart the server.",
            )
        # What a failed sync left on disk is unknown, even if the next one succeeds.
        try:
            self._disk.sync_directory(self._directory)
        except OSError as error:
            self._is_fenced = not is_passing(error)
            raise
        serial = self._take_serial()
        self._disk.replace(self._path("snapshot", serial), encode_snapshot(snapshot))
        self._kept[serial] = snapshot
        for old in sorted(self._kept)[:-SNAPSHOTS_KEPT]:
            del self._kept[old]
        self._remove_unnamed(in_use=in_use)

    def _load(self, serial: int) -> Loaded | None:
        path = self._path("snapshot", serial)
        try:
            file = self._disk.open(path)
            snapshot = decode_snapshot(file.read(0, file.size))
        except CorruptFileError as fault:
            self._set_aside(path, str(fault))
            return None
        segments = {}
        for described in snapshot.segments:
            segment = self._load_segment(described)
            if segment is None:
                return None
            segments[described.number] = segment
        return Loaded(snapshot, segments)

    def _load_segment(self, described: SegmentFile) -> Segment | None:
        path = self._path("segment", described.serial)
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return None
        if file.size != described.end + PADDING or _crc(file, described.end) != described.crc:
            self._set_aside(path, "Its checksum or length does not fit.")
            return None
        return Segment(
            np.frombuffer(self._disk.map(path), np.uint8),
            described.end,
            described.live_bytes,
            described.oldest_ms,
            described.newest_ms,
            described.serial,
            described.crc,
        )

    def _set_aside(self, path: str, reason: str) -> None:
        self.faults.append(f"{path} was set aside. {reason}")
        self._disk.rename(path, f"{path}.damaged")
        self._disk.sync_directory(self._directory)

    def _remove_unnamed(self, *, in_use: Collection[int]) -> None:
        """Remove files that neither a kept snapshot nor the running state names."""
        try:
            for path in self._unnamed(in_use):
                self._disk.unlink(path)
        except OSError as error:
            # They only take room, and the next round tries again.
            _events.warning("files not removed", directory=self._directory, cause=str(error))

    def _unnamed(self, in_use: Collection[int]) -> list[str]:
        named = {each.serial for kept in self._kept.values() for each in kept.segments}
        named |= {*in_use}
        names = self._disk.listdir(self._directory)
        return [
            *(self._path("segment", serial) for serial in _serials(names, "segment") - named),
            *(self._path("snapshot", each) for each in _serials(names, "snapshot") - {*self._kept}),
            *(f"{self._directory}/{name}" for name in names if name.endswith(TEMPORARY_SUFFIX)),
        ]

    def _take_serial(self) -> int:
        serial, self._next_serial = self._next_serial, self._next_serial + 1
        return serial

    def _path(self, kind: str, serial: int) -> str:
        return f"{self._directory}/{kind}-{serial:016d}"


def _serials(names: Iterable[str], kind: str) -> set[int]:
    matches = filter(None, map(_NAME.fullmatch, names))
    return {int(match[2]) for match in matches if match[1] == kind and match[3] is None}


def _crc(file: File, end: int) -> int:
    """Return the checksum of a file, read from its start to an end."""
    return crc32c_of_parts(
        file.read(position, min(READ_BYTES, end - position))
        for position in range(0, end, READ_BYTES)
    )


def described(number: int, segment: Segment) -> SegmentFile:
    """Describe a segment that has its file."""
    assert segment.serial is not None
    assert segment.end >= LEAD
    return SegmentFile(
        number,
        segment.serial,
        segment.end,
        segment.crc,
        segment.live_bytes,
        segment.oldest_ms,
        segment.newest_ms,
    )
