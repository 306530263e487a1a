"""Who wrote which offsets of a log: every start of a storage is another incarnation of it.

A directory may be copied, and a copy may be started while clients, lakes and checkpoints of others
remember what happened after it was made. The copy then gives offsets out a second time, to other
rows. A position alone does not tell that; a position and the incarnation that wrote the row before
it do, as long as every log knows where each incarnation began.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.model.bucket import TableBucket

STARTS_MAX = 1000
"""Starts that a log remembers; positions before the first of them are believed."""
UNKNOWN = 0
"""Stands for the incarnations of versions that did not count them."""


@dataclass(frozen=True, slots=True)
class Start:
    """Say from which offset on an incarnation wrote."""

    incarnation: int
    offset: int


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Hold a position of a log, and the incarnation that wrote the row before it."""

    bucket: TableBucket
    position: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """Hold the incarnations that wrote a log, the oldest first."""

    starts: tuple[Start, ...] = ()

    def writer_before(self, position: int) -> int:
        """Return the incarnation that wrote the row before a position."""
        for start in reversed(self.starts):
            if start.offset < position:
                return start.incarnation
        return UNKNOWN

    def holds(self, position: int, incarnation: int) -> bool:
        """Tell whether the log is, before a position, the one that this incarnation wrote."""
        if incarnation == UNKNOWN or not self.starts:
            return True
        for start, following in pairwise(self.starts):
            if start.incarnation == incarnation:
                return position <= following.offset
        # What was written before the log remembers starts cannot be told apart.
        is_last = self.starts[-1].incarnation == incarnation
        return is_last or position <= self.starts[0].offset

    def continued(self, incarnation: int, offset: int) -> "Lineage":
        """Return the lineage of a log that an incarnation goes on with from an offset on."""
        if incarnation == UNKNOWN or self.is_of(incarnation):
            return self
        kept = tuple(start for start in self.starts if start.offset < offset)
        return Lineage((*kept, Start(incarnation, offset))[-STARTS_MAX:])

    def since(self, offset: int) -> "Lineage":
        """Return the lineage without incarnations that wrote nothing from before an offset on."""
        gone = sum(following.offset < offset for _, following in pairwise(self.starts))
        return Lineage(self.starts[gone:]) if gone else self

    def between(self, start: int, end: int) -> tuple[Start, ...]:
        """Return where incarnations began to write inside a range."""
        return tuple(each for each in self.starts if start <= each.offset < end)

    def is_of(self, incarnation: int) -> bool:
        """Tell whether an incarnation was the last to write."""
        return bool(self.starts) and self.starts[-1].incarnation == incarnation


def lineage_of(pairs: Sequence[int]) -> Lineage:
    """Return a lineage that was told as pairs of offset and incarnation."""
    told = zip(pairs[::2], pairs[1::2], strict=True)
    return Lineage(tuple(Start(incarnation, offset) for offset, incarnation in told))


NO_LINEAGE = Lineage()
"""Stands for logs of versions that did not count starts."""
