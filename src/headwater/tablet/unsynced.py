"""Which rows of a state are not durable yet, so that nobody is shown what may vanish."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from headwater.kv.location import Locations

DURABLE = 0
_PLACE_MASK = (1 << 48) - 1


@dataclass(frozen=True, slots=True)
class _Written:
    end_offset: int
    start: int
    end: int
    removes: bool


class Unsynced:
    """Remember what was applied since the last sync."""

    def __init__(self) -> None:
        self._written: deque[_Written] = deque()

    def note(self, end_offset: int, *, location: int, size: int, removes: bool) -> None:
        """Remember records that the log up to an offset makes durable."""
        start = location & _PLACE_MASK
        self._written.append(_Written(end_offset, start, start + size, removes))

    def forget(self, synced_offset: int) -> None:
        """Count everything before an offset as durable."""
        while self._written and self._written[0].end_offset <= synced_offset:
            self._written.popleft()

    def offset_for(self, locations: Locations) -> int:
        """Return the offset that has to be durable before these rows may be shown."""
        if not self._written:
            return DURABLE
        places, is_absent = locations & _PLACE_MASK, bool((locations < 0).any())
        for written in reversed(self._written):
            is_within = (places >= written.start) & (places < written.end) & (locations >= 0)
            if (written.removes and is_absent) or bool(np.any(is_within)):
                return written.end_offset
        return DURABLE

    @property
    def end_offset(self) -> int:
        """Return the offset that makes everything durable."""
        return self._written[-1].end_offset if self._written else DURABLE
