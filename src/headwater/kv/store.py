"""The files of one bucket's state: segments of rows, and snapshots that name them.

A snapshot does not copy rows: it holds the index and names segments that are on disk already. Every
file is written once and completely. Only a snapshot makes segments count; files that no kept
snapshot names are left over from a crash and are removed.
"""

import json
import re
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headwater.errors import CorruptFileError, InvalidTableError, KvStorageError
from headwater.kv.heap import LEAD, SEGMENT_BYTES_LIMIT, HeapSegment, Locations
from headwater.model.type_json import Json, document_of, int_of, list_of, object_of
from headwater.rows.row_bytes import PADDING, crc32c, crc32c_of_parts
from headwater.runtime.events import Events
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, File, is_passing


@dataclass(frozen=True, slots=True, kw_only=True)
class KvSettings:
    """Limits of one bucket's state."""

    segment_bytes_max: int = 32 << 20

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes_max < SEGMENT_BYTES_LIMIT


# Snapshots. The file is `u32 length of head | head (JSON) | arrays | u32 checksum of all before`.

VERSION = 1
_SHOWN_MAX = 60
_U32 = struct.Struct("<I")
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One segment on disk; its times tell when its rows were written."""

    number: int
    serial: int
    end: int
    crc: int
    live_bytes: int
    oldest_ms: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class IdRange:
    """The auto-increment numbers that a bucket has reserved: from next to last."""

    next_id: int
    last_id: int


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The state of a bucket at one log offset."""

    offset: int
    seed: int
    segments: tuple[SegmentFile, ...]
    hashes: Hashes
    locations: Locations
    collided: dict[bytes, int] = field(default_factory=dict)
    prefixes: tuple[Hashes, Hashes] | None = None
    ids: IdRange | None = None


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot."""
    arrays = [snapshot.hashes, snapshot.locations, *(snapshot.prefixes or ())]
    head = json.dumps(
        {
            "version": VERSION,
            "offset": snapshot.offset,
            "seed": snapshot.seed,
            "segments": [_fields(segment) for segment in snapshot.segments],
            "collided": [[key.hex(), at] for key, at in snapshot.collided.items()],
            "ids": None if snapshot.ids is None else [snapshot.ids.next_id, snapshot.ids.last_id],
            "has_prefixes": snapshot.prefixes is not None,
            "counts": [len(array) for array in arrays],
        }
    ).encode()
    parts = [_U32.pack(len(head)), head, *(array.tobytes() for array in arrays)]
    content = b"".join(parts)
    return content + _U32.pack(crc32c(content))


def decode_snapshot(content: bytes) -> Snapshot:
    """Decode a snapshot, or raise CorruptFileError."""
    if len(content) < 2 * _U32.size:
        raise CorruptFileError(f"A snapshot of {len(content)} bytes is too short.")
    (crc,) = _U32.unpack_from(content, len(content) - _U32.size)
    body = memoryview(content)[: -_U32.size]
    if crc32c(body) != crc:
        raise CorruptFileError("The checksum of a snapshot does not match.")
    (length,) = _U32.unpack_from(body)
    try:
        head = object_of(document_of(bytes(body[_U32.size : _U32.size + length])), what="head")
        if int_of(head, "version") != VERSION:
            raise CorruptFileError(
                f"A snapshot has version {head['version']}, but this program reads "
                f"version {VERSION}."
            )
        return _snapshot(head, body[_U32.size + length :])
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"A snapshot cannot be read: {fault}.") from fault


def _snapshot(head: Mapping[str, Json], body: memoryview) -> Snapshot:
    arrays = _arrays(body, list(_numbers(head.get("counts"))))
    has_prefixes = head.get("has_prefixes") is True
    if len(arrays) != (4 if has_prefixes else 2) or len(arrays[0]) != len(arrays[1]):
        raise ValueError(f"it has {len(arrays)} arrays of different lengths")
    return Snapshot(
        int_of(head, "offset"),
        int_of(head, "seed"),
        tuple(SegmentFile(*_numbers(each, count=7)) for each in list_of(head, "segments")),
        arrays[0],
        arrays[1].view(np.int64),
        dict(map(_collided, list_of(head, "collided"))),
        (arrays[2], arrays[3]) if has_prefixes else None,
        None if head.get("ids") is None else IdRange(*_numbers(head["ids"], count=2)),
    )


def _numbers(node: Json, *, count: int | None = None) -> tuple[int, ...]:
    """Require a list of whole numbers of this length."""
    given = node if isinstance(node, list) else []
    numbers = tuple(each for each in given if isinstance(each, int))
    if not isinstance(node, list) or len(numbers) != (len(node) if count is None else count):
        raise ValueError(f"{str(node)[:_SHOWN_MAX]} is not a list of the expected whole numbers")
    return numbers


def _collided(node: Json) -> tuple[bytes, int]:
    match node:
        case [str(key), int(location)]:
            return bytes.fromhex(key), location
        case _:
            raise ValueError(f"{str(node)[:_SHOWN_MAX]} is not a key with its location")


def _fields(segment: SegmentFile) -> list[int]:
    return [
        segment.number,
        segment.serial,
        segment.end,
        segment.crc,
        segment.live_bytes,
        segment.oldest_ms,
        segment.newest_ms,
    ]


def _arrays(body: memoryview, counts: list[int]) -> list[Hashes]:
    if min(counts, default=0) < 0 or sum(counts) * 8 != len(body):
        raise CorruptFileError("The arrays of a snapshot are truncated.")
    # Copied, because the bytes after the head may be unaligned.
    words = np.frombuffer(bytes(body), np.uint64)
    ends = np.cumsum(counts)
    return [words[end - count : end] for count, end in zip(counts, ends, strict=True)]


# Reading and writing the files.

SNAPSHOTS_KEPT = 2
READ_BYTES = 8 << 20
_events = Events("kv")
_NAME = re.compile(r"(segment|snapshot)-(\d{16})(\.damaged)?")


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A complete snapshot with its segments by number."""

    snapshot: Snapshot
    segments: dict[int, HeapSegment]


class KvStore:
    """Reads and writes the files of one bucket's state; one thread at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._kept: dict[int, Snapshot] = {}
        self._next_serial = 0
        self._is_fenced = False
        # The newest snapshot with its number, as one value for other threads.
        self.newest: tuple[int, Snapshot] | None = None
        self.faults: list[str] = []

    @property
    def rebuild_offset(self) -> int:
        """Offset from which the log is needed to rebuild the state."""
        return min((snapshot.offset for snapshot in self._kept.values()), default=0)

    def names_all(self, serials: Collection[int | None]) -> bool:
        """Tell whether the newest snapshot names exactly these segments."""
        if not self._kept:
            return False
        return {each.serial for each in self._kept[max(self._kept)].segments} == {*serials}

    def load(self, *, offset_min: int = 0, offset_max: int) -> LoadedSnapshot | None:
        """Load the newest complete snapshot; damaged files are set aside.

        A snapshot beyond the end of its log is not used: the log is the truth. One before the start
        of its log is only used if there is no newer one.

        Nothing is removed, so that what is left of the rows is not lost with them.
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
                self.newest = self.newest or (serial, found.snapshot)
                loaded = loaded or found
            elif found is None and loaded is None:
                self.faults.append(f"Snapshot {serial} is incomplete.")
        return loaded

    def tidy(self) -> None:
        """Remove what no snapshot names, once the rows are safe without it."""
        self._remove_unnamed(in_use=())

    def write(self, segment: HeapSegment) -> None:
        """Write a sealed segment to a file and read it from there from now on.

        It is durable before it is read from there: if a sync fails, memory still has it.
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
        """Make a snapshot count, then remove older ones and the files that only they name.

        1. make the names of its segments durable  2. put the snapshot in place
        3. remove what is no longer needed
        """
        if self._is_fenced:
            raise KvStorageError(
                "Snapshots stopped because a sync failed.",
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
        self.newest = (serial, snapshot)
        for old in sorted(self._kept)[:-SNAPSHOTS_KEPT]:
            del self._kept[old]
        self._remove_unnamed(in_use=in_use)

    def _load(self, serial: int) -> LoadedSnapshot | None:
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
        return LoadedSnapshot(snapshot, segments)

    def _load_segment(self, described: SegmentFile) -> HeapSegment | None:
        path = self._path("segment", described.serial)
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return None
        if file.size != described.end + PADDING or _crc(file, described.end) != described.crc:
            self._set_aside(path, "Its checksum or length does not match.")
            return None
        return HeapSegment(
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
            # They only take space, and the next round tries again.
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
        return f"{self._directory}/{file_name(kind, serial)}"


def file_name(kind: str, serial: int) -> str:
    """Return the name of a segment or snapshot."""
    return f"{kind}-{serial:016d}"


def _serials(names: Iterable[str], kind: str) -> set[int]:
    matches = filter(None, map(_NAME.fullmatch, names))
    return {int(match[2]) for match in matches if match[1] == kind and match[3] is None}


def _crc(file: File, end: int) -> int:
    """Checksum of a file from its start to an end."""
    return crc32c_of_parts(
        file.read(position, min(READ_BYTES, end - position))
        for position in range(0, end, READ_BYTES)
    )


def described(number: int, segment: HeapSegment) -> SegmentFile:
    """Describe a segment that has a file."""
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
