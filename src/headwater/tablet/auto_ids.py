"""Numbers for an auto-increment column, reserved in blocks."""

from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from headwater.kv.snapshot import IdRange
from headwater.tablet.keyed_table import TableVersion


class AutoIds:
    """Hand out numbers that no other bucket of the table hands out."""

    def __init__(self, reserve: Callable[[int], int], kept: IdRange | None = None) -> None:
        self._reserve = reserve
        self._ranges = deque([kept] if kept and kept.next_id <= kept.last_id else [])

    @property
    def range(self) -> IdRange | None:
        """Return what is left of the current block."""
        return self._ranges[0] if self._ranges else None

    def provide(self, count: int, version: TableVersion) -> None:
        """Make sure that this many numbers are at hand."""
        if not version.schema.auto_increment:
            return
        missing = count - sum(each.last_id - each.next_id + 1 for each in self._ranges)
        if missing > 0:
            block = version.options.kv.auto_increment_cache_size
            taken = -(-missing // block) * block
            before = self._reserve(taken)
            self._ranges.append(IdRange(before + 1, before + taken))

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Return the next numbers."""
        parts: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        while count:
            first = self._ranges.popleft()
            last_id = min(first.last_id, first.next_id + count - 1)
            parts.append(np.arange(first.next_id, last_id + 1, dtype=np.int64))
            count -= last_id - first.next_id + 1
            if last_id < first.last_id:
                self._ranges.appendleft(IdRange(last_id + 1, first.last_id))
        return np.concatenate(parts)

    def skip(self, used: int) -> None:
        """Never hand out a number that was found in use, nor one before it in its block."""
        kept = [
            IdRange(max(each.next_id, used + 1), each.last_id)
            for each in self._ranges
            if each.last_id > used >= each.next_id - 1
        ]
        # A number of another block: that block was reserved later, and the rest of it is lost.
        self._ranges = deque(kept or [])
