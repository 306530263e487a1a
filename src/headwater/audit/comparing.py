"""The rows of a state against what a changelog leaves of each key."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa

from headwater.audit.changes import Changes, lookup
from headwater.audit.prints import Prints
from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import Longs, Mask


class Wrong(StrEnum):
    """Name a way in which a state differs from its changelog, as a part of a sentence."""

    OTHER = "differ from what the changelog makes of them"
    DELETED = "are there though the changelog deleted them"
    EXTRA = "are there though no change put them there"
    TWICE = "are there more than once"
    MISSING = "are missing though the changelog holds them"


@dataclass(slots=True)
class Tally:
    """Count rows that are wrong in one way, and keep the first of them."""

    count: int = 0
    offset: int | None = None
    """The change of the first one."""
    key: str = ""

    def add(self, count: int, *, offset: int | None, key: str = "") -> None:
        """Count more of them, of which the first was changed at an offset."""
        is_first = self.offset is None or (offset is not None and offset < self.offset)
        if not self.count or (is_first and offset is not None):
            self.offset, self.key = offset, key
        self.count += count


@dataclass(slots=True)
class StateCompare:
    """Take the rows of a state, in any order, and compare each with the last change of its key."""

    prints: Prints
    held: Changes
    """The last change of each key, in the order of the prints."""
    is_whole: bool
    """Whether every row of the state must have a change."""
    row_count: int = 0
    tallies: dict[Wrong, Tally] = field(default_factory=dict)
    _is_seen: Mask = field(init=False)

    def __post_init__(self) -> None:
        self._is_seen = np.zeros(len(self.held), np.bool_)

    def take(self, rows: pa.RecordBatch) -> None:
        """Compare rows."""
        self.row_count += rows.num_rows
        keys, prints = self.prints.keys(rows), self.prints.rows(rows)
        places = lookup(self.held, keys)
        is_known = places >= 0
        self._note(Wrong.TWICE, rows, places, _repeated(places) | self._seen_before(places))
        if self.is_whole:
            self._note(Wrong.EXTRA, rows, places, ~is_known)
        if not len(self.held):
            return
        is_deleted = is_known & (self.held.types[places] == ChangeType.DELETE)
        is_other = is_known & ~is_deleted & (self.held.rows[places] != prints)
        self._note(Wrong.DELETED, rows, places, is_deleted)
        self._note(Wrong.OTHER, rows, places, is_other)
        self._is_seen[places[is_known]] = True

    def finish(self) -> None:
        """Count what the changelog holds and no row was there for."""
        is_missing = ~self._is_seen & (self.held.types != ChangeType.DELETE)
        if is_missing.any():
            first = int(self.held.offsets[is_missing].min())
            self._tally(Wrong.MISSING).add(int(is_missing.sum()), offset=first)

    def _seen_before(self, places: Longs) -> Mask:
        if not len(self.held):
            return np.zeros(len(places), np.bool_)
        mask: Mask = (places >= 0) & self._is_seen[places]
        return mask

    def _note(self, wrong: Wrong, rows: pa.RecordBatch, places: Longs, is_wrong: Mask) -> None:
        if not is_wrong.any():
            return
        found = np.flatnonzero(is_wrong)
        known = found[places[found] >= 0]
        first, offset = int(found[0]), None
        if len(known):
            offsets = self.held.offsets[places[known]]
            first, offset = int(known[offsets.argmin()]), int(offsets.min())
        self._tally(wrong).add(len(found), offset=offset, key=self.prints.shown(rows, first))

    def _tally(self, wrong: Wrong) -> Tally:
        return self.tallies.setdefault(wrong, Tally())


def _repeated(places: Longs) -> Mask:
    """Return which places came before among these."""
    order = np.argsort(places, kind="stable")
    is_second = np.append([False], places[order][1:] == places[order][:-1])[: len(places)]
    mask = np.zeros(len(places), np.bool_)
    mask[order] = is_second & (places[order] >= 0)
    return mask


SAMPLE_ROWS = 10_000


@dataclass(slots=True)
class Sample:
    """Keep about so many rows, spread over all that come."""

    _parts: list[pa.RecordBatch] = field(default_factory=list)
    _stride: int = 1
    _count: int = 0

    def take(self, rows: pa.RecordBatch) -> None:
        """Keep some of more rows."""
        places = np.arange(-self._count % self._stride, rows.num_rows, self._stride)
        self._count += rows.num_rows
        if len(places):
            self._parts.append(rows.take(pa.array(places)))
        if sum(part.num_rows for part in self._parts) >= 2 * SAMPLE_ROWS:
            joined = pa.concat_batches(self._parts)
            self._parts = [joined.take(pa.array(np.arange(0, joined.num_rows, 2)))]
            self._stride *= 2

    def rows(self) -> pa.RecordBatch | None:
        """Return the rows that were kept; None if there are none."""
        return pa.concat_batches(self._parts) if self._parts else None
