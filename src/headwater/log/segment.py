"""One file of a bucket's log and what is known about it."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import attrgetter

from headwater.log.mark import Mark
from headwater.store.disk import Disk, File

_offset_of = attrgetter("offset")
_timestamp_of = attrgetter("timestamp_ms")


@dataclass(frozen=True, slots=True)
class Damage:
    """Hold offsets that cannot be read, the file they were in and what is wrong with it."""

    start: int
    end: int
    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: offsets {self.start} to {self.end} are damaged: {self.reason}"


@dataclass(slots=True, kw_only=True, eq=False)
class Segment:
    """Hold the marks and the readable end of a segment; only the active one changes.

    Readers in other threads see the tail grow: it is one immutable value, published after the
    bytes before it are in the file.
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
    """Nothing in it is left to be joined."""
    small_batches: int | None = None
    """Batches in it that could be joined, if they were counted."""

    @property
    def base_offset(self) -> int:
        """Return the first offset."""
        return self.marks[0].offset

    @property
    def end_offset(self) -> int:
        """Return the offset after the last readable batch."""
        return self.tail.offset

    @property
    def size(self) -> int:
        """Return the readable bytes."""
        return self.tail.position

    def is_verified(self, position: int) -> bool:
        """Tell whether the batch at a position was checked in this process."""
        return position < self.verified_to or position >= self.verified_from

    def handle(self, disk: Disk) -> File:
        """Return the open file; a sealed one is opened for each read and then let go."""
        return self.file or disk.open(self.path)

    def mark_before(self, offset: int) -> Mark:
        """Return the last mark at or before an offset."""
        return self.marks[max(bisect_right(self.marks, offset, key=_offset_of) - 1, 0)]

    def mark_before_timestamp(self, timestamp_ms: int) -> Mark:
        """Return the last mark before which every timestamp is smaller."""
        return self.marks[max(bisect_left(self.marks, timestamp_ms, key=_timestamp_of) - 1, 0)]

    def cut(self, tail: Mark, *, path: str) -> "Segment":
        """Return the damaged segment of which only the part before `tail` is left."""
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
    """Return an empty segment that starts where another one ended."""
    first = Mark(start.offset, 0, start.timestamp_ms)
    return Segment(path=path, marks=[first], tail=first, file=file, is_named=False, small_batches=0)
