"""A bucket of a table, its offsets, and the incarnations that wrote them.

A bucket is the unit that has one log, one order and one writer at a time. Every start of a storage
is a new incarnation, so a position names the incarnation as well as the offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class TableBucket:
    """One bucket of a table, or of one of its partitions."""

    table_id: int
    bucket: int
    partition_id: int | None = None

    def __str__(self) -> str:
        if self.partition_id is None:
            return f"table {self.table_id} bucket {self.bucket}"
        return f"table {self.table_id} partition {self.partition_id} bucket {self.bucket}"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The half-open range of offsets `[start, end)`."""

    start: int
    end: int

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end


# Incarnations: a directory may be copied, and the copy started, while clients, lakes and
# checkpoints still remember what happened after the copy was made. The copy then assigns the same
# offsets to other rows. An offset alone cannot reveal that. An offset together with the incarnation
# that wrote the row before it can, as long as every log knows where each incarnation began.

STARTS_MAX = 1000
"""Starts that a log remembers; positions before the first of them are trusted."""
UNKNOWN = 0
"""The incarnation of versions that did not record incarnations."""


@dataclass(frozen=True, slots=True)
class Start:
    """The offset from which an incarnation wrote."""

    incarnation: int
    offset: int


@dataclass(frozen=True, slots=True)
class LogPosition:
    """An offset in a log, and the incarnation that wrote the row before it."""

    bucket: TableBucket
    position: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The incarnations that wrote a log, oldest first."""

    starts: tuple[Start, ...] = ()

    def writer_before(self, position: int) -> int:
        """Find the incarnation that wrote the row before an offset."""
        for start in reversed(self.starts):
            if start.offset < position:
                return start.incarnation
        return UNKNOWN

    def holds(self, position: int, incarnation: int) -> bool:
        """Tell whether the row before an offset was written by this incarnation."""
        if incarnation == UNKNOWN or not self.starts:
            return True
        for start, following in pairwise(self.starts):
            if start.incarnation == incarnation:
                return position <= following.offset
        # Rows from before the first remembered start cannot be told apart.
        is_last = self.starts[-1].incarnation == incarnation
        return is_last or position <= self.starts[0].offset

    def continued(self, incarnation: int, offset: int) -> "Lineage":
        """Add an incarnation that continues the log at an offset."""
        if incarnation == UNKNOWN or self.is_of(incarnation):
            return self
        kept = tuple(start for start in self.starts if start.offset < offset)
        return Lineage((*kept, Start(incarnation, offset))[-STARTS_MAX:])

    def since(self, offset: int) -> "Lineage":
        """Drop the incarnations that wrote nothing at or after an offset."""
        gone = sum(following.offset < offset for _, following in pairwise(self.starts))
        return Lineage(self.starts[gone:]) if gone else self

    def between(self, start: int, end: int) -> tuple[Start, ...]:
        """Return the starts of incarnations inside a range."""
        return tuple(each for each in self.starts if start <= each.offset < end)

    def is_of(self, incarnation: int) -> bool:
        """Tell whether an incarnation was the last to write."""
        return bool(self.starts) and self.starts[-1].incarnation == incarnation


def lineage_of(pairs: Sequence[int]) -> Lineage:
    """Build a lineage from pairs of offset and incarnation."""
    told = zip(pairs[::2], pairs[1::2], strict=True)
    return Lineage(tuple(Start(incarnation, offset) for offset, incarnation in told))


NO_LINEAGE = Lineage()
"""The lineage of logs from versions that did not record incarnations."""


# Writer ids: those that a server assigns, and those that sinks compute. An assigned id is a block
# and a number in it. Blocks are drawn at random for each user and incarnation, so that no id is
# assigned twice: not after a restart, not by a copy of the directory that runs elsewhere. Sinks
# compute their ids, so that every attempt has the same; a bit marks those.

NUMBER_BITS = 24
BLOCK_MIN, BLOCK_END = 1, 1 << 38
"""Blocks begin at 1; earlier versions assigned small numbers, which make up block 0."""
COMPUTED_BIT = 1 << (NUMBER_BITS + 38)


def is_computed(writer_id: int) -> bool:
    """Tell whether a sink computed the id."""
    return bool(writer_id & COMPUTED_BIT) and writer_id > 0


def block_of(writer_id: int) -> int:
    """Extract the block of an assigned id."""
    return writer_id >> NUMBER_BITS
