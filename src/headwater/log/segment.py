"""The segments of a log: file names, known positions inside, and the list of segments."""

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from headwater.errors import CorruptFileError
from headwater.rows.log_batch import CRC_END
from headwater.rows.row_bytes import crc32c
from headwater.store.disk import Disk, File

CHECKPOINT = "checkpoint"
_DELETED = re.compile(r"(\d{20})\.log\.deleted-(\d{1,19})")
_SEGMENT = re.compile(r"(\d{20})\.log(\.damaged)?")


@dataclass(frozen=True, slots=True)
class SegmentName:
    """A segment file, named by its first offset."""

    base_offset: int
    is_damaged: bool

    def __str__(self) -> str:
        return segment_name(self.base_offset) + (".damaged" if self.is_damaged else "")


@dataclass(frozen=True, slots=True)
class DeletedSegment:
    """The file of a segment that is no longer part of the log, and when it is to be unlinked."""

    base_offset: int
    due_ms: int

    def __str__(self) -> str:
        return f"{segment_name(self.base_offset)}.deleted-{self.due_ms}"


def deleted_segments(names: Iterable[str]) -> tuple[DeletedSegment, ...]:
    """Pick the files of deleted segments from the names of a directory."""
    matches = filter(None, map(_DELETED.fullmatch, names))
    return tuple(DeletedSegment(int(match[1]), int(match[2])) for match in matches)


def segment_name(base_offset: int) -> str:
    """File name of a segment."""
    return f"{base_offset:020d}.log"


def index_name(base_offset: int) -> str:
    """File name of a sealed segment's index."""
    return f"{base_offset:020d}.index"


def torn_name(base_offset: int, names: Iterable[str]) -> str:
    """Pick the first free name for bytes that are cut from a segment."""
    taken = set(names)
    number = 1
    while f"{segment_name(base_offset)}.torn-{number}" in taken:
        number += 1
    return f"{segment_name(base_offset)}.torn-{number}"


def segment_names(names: Iterable[str]) -> list[SegmentName]:
    """Pick the segments from the names of a directory, by offset.

    A damaged one is ignored once an operator has put a good copy next to it.
    """
    matches = filter(None, map(_SEGMENT.fullmatch, names))
    found = [SegmentName(int(match[1]), match[2] is not None) for match in matches]
    found.sort(key=lambda name: (name.base_offset, name.is_damaged))
    return [
        name
        for at, name in enumerate(found)
        if at == 0 or found[at - 1].base_offset != name.base_offset
    ]


# Known positions in a segment, from which it can be read and verified.

_MARK = struct.Struct("<qqqI")
_COUNT = struct.Struct("<I")
_CHAIN = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Mark:
    """A position where one batch ends and the next begins.

    `timestamp_ms` is the highest commit timestamp before it. `chain` covers the headers since the
    previous mark, because a batch's own checksum leaves out what the server stamps.
    """

    offset: int
    position: int
    timestamp_ms: int
    chain: int = 0


def extend_chain(chain: int, head: bytes) -> int:
    """Extend the chain by one batch header."""
    return crc32c(_CHAIN.pack(chain) + head[:CRC_END])


def covering(marks: Sequence[Mark], tail: Mark) -> tuple[Mark, ...]:
    """The marks up to a tail and the tail itself, each position once.

    If nothing was written since the tail was marked, the tail says nothing about the headers before
    it; the mark does.
    """
    before = [mark for mark in marks if mark.position < tail.position]
    same = [mark for mark in marks if 0 < mark.position == tail.position]
    return (*before, *(same[:1] or [tail]))


def fits(mark: Mark, found: Mark) -> bool:
    """Tell whether a mark matches what was found at its position; chain 0 means unknown."""
    return mark == (found if mark.chain else replace(found, chain=0))


def encode_marks(marks: Sequence[Mark]) -> bytes:
    """Encode marks after their count."""
    packed = (
        _MARK.pack(mark.offset, mark.position, mark.timestamp_ms, mark.chain) for mark in marks
    )
    return b"".join((_COUNT.pack(len(marks)), *packed))


def decode_marks(data: bytes, position: int) -> tuple[tuple[Mark, ...], int]:
    """Decode marks, and return them with the position after them."""
    start = position + _COUNT.size
    if start > len(data):
        raise CorruptFileError("A list of marks ends before its count.")
    (count,) = _COUNT.unpack_from(data, position)
    end = start + count * _MARK.size
    if count == 0 or end > len(data):
        raise CorruptFileError(f"A list of {count} marks is longer than its file.")
    return tuple(Mark(*fields) for fields in _MARK.iter_unpack(data[start:end])), end


# One file of a bucket's log and what is known about it.

_offset_of = attrgetter("offset")
_timestamp_of = attrgetter("timestamp_ms")


@dataclass(frozen=True, slots=True)
class Damage:
    """Offsets that cannot be read, the file they were in, and what is wrong with it."""

    start: int
    end: int
    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: offsets {self.start} to {self.end} are damaged: {self.reason}"


@dataclass(slots=True, kw_only=True, eq=False)
class Segment:
    """The marks and the readable end of a segment; only the active one changes.

    Readers in other threads see the tail grow: it is one immutable value, published after the bytes
    before it are in the file.
    """

    path: str
    marks: list[Mark]
    tail: Mark
    file: File | None = None
    verified_to: int = 0
    verified_from: int = 0
    written_from: int = 0
    is_indexed: bool = False
    is_named: bool = True
    is_damaged: bool = False
    is_settled: bool = False
    """Nothing is left to be joined."""
    small_batches: int | None = None
    """Number of batches that could be joined, if counted."""

    @property
    def base_offset(self) -> int:
        """First offset."""
        return self.marks[0].offset

    @property
    def end_offset(self) -> int:
        """Offset after the last readable batch."""
        return self.tail.offset

    @property
    def size(self) -> int:
        """Readable bytes."""
        return self.tail.position

    def is_verified(self, position: int) -> bool:
        """Tell whether the batch at a position was verified in this process."""
        return position < self.verified_to or position >= self.verified_from

    def handle(self, disk: Disk) -> File:
        """The open file; a sealed one is opened for each read and closed afterwards."""
        return self.file or disk.open(self.path)

    def mark_before(self, offset: int) -> Mark:
        """Find the last mark at or before an offset."""
        return self.marks[max(bisect_right(self.marks, offset, key=_offset_of) - 1, 0)]

    def mark_before_timestamp(self, timestamp_ms: int) -> Mark:
        """Find the last mark before which every timestamp is smaller."""
        return self.marks[max(bisect_left(self.marks, timestamp_ms, key=_timestamp_of) - 1, 0)]

    def cut(self, tail: Mark, *, path: str) -> "Segment":
        """The damaged segment, reduced to the part before `tail`."""
        kept = [mark for mark in self.marks if mark.position < tail.position]
        return Segment(
            path=path,
            marks=kept or [tail],
            tail=tail,
            verified_to=min(self.verified_to, tail.position),
            verified_from=self.verified_from,
            is_damaged=True,
        )


def new_segment(path: str, *, start: Mark, file: File) -> Segment:
    """Make an empty segment that starts where another one ended."""
    first = Mark(start.offset, 0, start.timestamp_ms)
    return Segment(path=path, marks=[first], tail=first, file=file, is_named=False, small_batches=0)


# The segments of a log right now, as one immutable value that is replaced as a whole.


@dataclass(frozen=True, slots=True)
class LogShape:
    """The segments, oldest first and the active one last, and the damage."""

    start_offset: int
    segments: tuple[Segment, ...]
    damages: tuple[Damage, ...]

    @property
    def active(self) -> Segment:
        """The segment that receives appends."""
        return self.segments[-1]

    def holding(self, offset: int) -> Segment | None:
        """Find the segment that can serve an offset; None if it is damaged."""
        segment = self.at_or_before(offset)
        is_inside = segment is not None and segment.base_offset <= offset < segment.end_offset
        return segment if is_inside else None

    def at_or_before(self, offset: int) -> Segment | None:
        """Find the last segment that starts at or before an offset."""
        index = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset)
        return self.segments[index - 1] if index else None

    def damage_at(self, offset: int) -> Damage | None:
        """Find the damage that covers an offset."""
        inside = (damage for damage in self.damages if damage.start <= offset < damage.end)
        return next(inside, None)

    def followed_by(self, segment: Segment) -> "LogShape":
        """The shape with a new active segment."""
        return replace(self, segments=(*self.segments, segment))

    def without(self, removed: Sequence[Segment], *, start_offset: int) -> "LogShape":
        """The shape after retention."""
        return LogShape(
            start_offset,
            tuple(segment for segment in self.segments if segment not in removed),
            tuple(damage for damage in self.damages if damage.end > start_offset),
        )

    def with_damage(self, old: Segment, *, new: Segment, damage: Damage) -> "LogShape":
        """The shape after a segment was set aside."""
        segments = tuple(new if segment is old else segment for segment in self.segments)
        damages = [each for each in self.damages if each.end != damage.end]
        return LogShape(self.start_offset, segments, (*damages, damage))

    def with_other(self, old: Segment, new: Segment) -> "LogShape":
        """The shape after a segment was rewritten."""
        segments = tuple(new if segment is old else segment for segment in self.segments)
        return replace(self, segments=segments)

    def end_of(self, segment: Segment) -> int:
        """Where the next segment starts."""
        return self.segments[self.segments.index(segment) + 1].base_offset
