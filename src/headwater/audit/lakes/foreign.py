"""What others did to a lake table: the rows that they took away, and those that they added."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from headwater.audit.lakes.differing import Difference
from headwater.audit.lakes.groups import Group
from headwater.audit.lakes.looked import Held
from headwater.rows.row_bytes import Words

RowsOf = Callable[[Held, Group], Awaitable[Words]]


@dataclass(slots=True)
class Foreign:
    """Tell what others did from what tierers did wrong.

    Snapshots of others carry no offsets, so that all that they have more or less than the one
    before them is theirs.
    """

    line: Sequence[Held]
    rows_of: RowsOf
    """Reads which rows a group has in a snapshot."""
    _known: dict[tuple[int, Group], Words] = field(default_factory=dict)

    async def explains(self, found: Difference, group: Group, held: Held) -> bool:
        """Tell whether all that differs in a snapshot was done by others, up to there."""
        missing, extra = found.missing, found.extra
        if not len(missing) and not len(extra):
            return False
        for first, last in _runs(self.line[: self.line.index(held) + 1]):
            now = await self._rows(self.line[last], group)
            if first:
                before = await self._rows(self.line[first - 1], group)
                missing = np.setdiff1d(missing, np.setdiff1d(before, now))
                extra = np.setdiff1d(extra, np.setdiff1d(now, before))
            else:
                # What was before it is not kept: all of it may be theirs.
                missing, extra = np.intersect1d(missing, now), np.setdiff1d(extra, now)
        return not len(missing) and not len(extra)

    async def _rows(self, held: Held, group: Group) -> Words:
        key = (held.snapshot_id, group)
        if key not in self._known:
            self._known[key] = await self.rows_of(held, group)
        return self._known[key]


def _runs(line: Sequence[Held]) -> Iterator[tuple[int, int]]:
    """Yield the first and last place of snapshots of others that follow each other.

    An overwrite may be two: one that takes all away, and one that brings most of it back.
    """
    first: int | None = None
    for place, held in enumerate(line):
        if not held.is_own and first is None:
            first = place
        if first is not None and (held.is_own or place + 1 == len(line)):
            yield first, place - held.is_own
            first = None
