"""Check that a changelog is consistent, and compare a state with what it leaves.

Keys and rows are reduced to 64-bit hashes ("prints"), so each key takes 25 bytes however large its
row is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.audit.digest import Prints
from headwater.audit.logs import AuditedBucket
from headwater.audit.report import Check
from headwater.errors import HeadwaterError
from headwater.model import OffsetRange
from headwater.read.filters import RowView
from headwater.read.log import BatchOrigin, FetchedBatch, LogReader
from headwater.read.offsets import LogBatch
from headwater.rows.log_batch import ChangeType, read_sections
from headwater.rows.row_bytes import Longs, Mask, Words
from headwater.runtime.tasks import aside

# The changes of a changelog, and what they leave.

# This many changes are processed together, which takes little longer than a few.
ROWS_TOGETHER = 1_000_000
# The first ones show what is wrong; the rest are only counted.
MISFITS_MAX = 10
_INSERT, _BEFORE = int(ChangeType.INSERT), int(ChangeType.UPDATE_BEFORE)
_AFTER, _DELETE = int(ChangeType.UPDATE_AFTER), int(ChangeType.DELETE)
_NOTHING = 255  # no earlier change of the key is known

Types = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Changes in log order: what each does, to which key, with which row."""

    types: Types
    keys: Words
    rows: Words
    offsets: Longs

    def __len__(self) -> int:
        return len(self.types)

    def take(self, places: Longs | Mask) -> "Changes":
        """Pick changes by position."""
        return Changes(
            self.types[places], self.keys[places], self.rows[places], self.offsets[places]
        )

    @classmethod
    def joined(cls, parts: Sequence["Changes"]) -> "Changes":
        """Concatenate changes."""
        return cls(
            np.concatenate([part.types for part in parts]),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.offsets for part in parts]),
        )


NO_CHANGES = Changes(
    np.empty(0, np.uint8), np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A change that does not follow from those before it, and why."""

    offset: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRules:
    """What is known about a changelog."""

    shows_before: bool
    """Whether the row before each update is in the log; if not, updates may stand for inserts."""


@dataclass(slots=True)
class ChangeFold:
    """Folds the changes of one bucket in order, keeping the last one of each key.

    Each key takes 25 bytes, however large its row is.
    """

    rules: ChangeRules
    is_whole: bool
    """Whether the changes begin with the first one ever."""
    misfits: list[Misfit] = field(default_factory=list)
    """The first misfits; `misfit_count` counts them all."""
    misfit_count: int = 0
    change_count: int = 0
    _held: Changes = NO_CHANGES
    _waiting: list[Changes] = field(default_factory=list)
    _waiting_rows: int = 0

    def add(self, changes: Changes) -> None:
        """Add changes that come after all earlier ones."""
        self.change_count += len(changes)
        self._waiting.append(changes)
        self._waiting_rows += len(changes)
        if self._waiting_rows >= max(ROWS_TOGETHER, len(self._held)):
            self._settle()

    def begin_anew(self) -> None:
        """Forget all changes, because some after them are unknown."""
        self._settle()
        self._held, self.is_whole = NO_CHANGES, False

    def held(self) -> Changes:
        """The last change of each key, ordered by print.

        If the changes are whole, deleted keys are left out.
        """
        self._settle()
        return self._held

    def _settle(self) -> None:
        if not self._waiting:
            return
        came = Changes.joined(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        if self.rules.shows_before:
            self._note(
                came.offsets, _unpaired(came), "is half of an update: the other half is missing"
            )
        together = Changes.joined([self._held, came])
        order = np.argsort(together.keys, kind="stable")
        sorted_ = together.take(order)
        self._check(sorted_, is_new=order >= len(self._held))
        is_last = np.append(sorted_.keys[1:] != sorted_.keys[:-1], [True])[: len(sorted_)]
        kept = sorted_.take(is_last)
        self._held = kept.take(kept.types != _DELETE) if self.is_whole else kept

    def _check(self, changes: Changes, *, is_new: Mask) -> None:
        """Compare each new change with the previous one of its key; all are in key order."""
        is_first = np.append([True], changes.keys[1:] != changes.keys[:-1])[: len(changes)]
        before = np.append([np.uint8(_NOTHING)], changes.types[:-1])[: len(changes)]
        before[is_first] = _DELETE if self.is_whole else _NOTHING
        is_there = (before == _INSERT) | (before == _AFTER)
        is_other = np.append([False], changes.rows[1:] != changes.rows[:-1])[: len(changes)]
        for mask, why in _rules(changes.types, before, is_there, is_other, self.rules):
            self._note(changes.offsets, mask & is_new, why)

    def _note(self, offsets: Longs, is_bad: Mask, why: str) -> None:
        if not is_bad.any():
            return
        bad = np.sort(offsets[is_bad])
        self.misfit_count += len(bad)
        room = MISFITS_MAX - len(self.misfits)
        self.misfits += [Misfit(int(offset), why) for offset in bad[:room]]


def _rules(
    types: Types, before: Types, is_there: Mask, is_other: Mask, rules: ChangeRules
) -> Iterator[tuple[Mask, str]]:
    """Yield which changes break a rule, and what is wrong with them."""
    is_gone = before == _DELETE
    yield (types == _INSERT) & is_there, "inserts a key that already exists"
    yield (types == _DELETE) & is_gone, "deletes a key that does not exist"
    if not rules.shows_before:
        return
    yield (types == _BEFORE) & is_gone, "updates a key that does not exist"
    shows_row = (types == _BEFORE) | (types == _DELETE)
    yield shows_row & is_there & is_other, "shows another row than the one before it"


def _unpaired(changes: Changes) -> Mask:
    """Find the halves of updates that are not next to their other half."""
    types, keys = changes.types, changes.keys
    is_pair = (types[:-1] == _BEFORE) & (types[1:] == _AFTER) & (keys[:-1] == keys[1:])
    is_paired = np.append(is_pair, [False]) | np.append([False], is_pair)
    mask: Mask = ((types == _BEFORE) | (types == _AFTER)) & ~is_paired
    return mask


def lookup(held: Changes, keys: Words) -> Longs:
    """Find each key among the kept changes; -1 if it is not there."""
    if not len(held):
        return np.full(len(keys), -1, np.int64)
    places = np.minimum(np.searchsorted(held.keys, keys), len(held) - 1)
    found: Longs = np.where(held.keys[places] == keys, places, -1)
    return found


# Comparing the rows of a state with the changelog.


class Wrong(StrEnum):
    """How a state differs from its changelog, as a part of a sentence."""

    OTHER = "differ from the changelog"
    DELETED = "exist although the changelog deleted them"
    EXTRA = "exist although no change wrote them"
    TWICE = "exist more than once"
    MISSING = "are missing although the changelog has them"


@dataclass(slots=True)
class Tally:
    """Counts rows that are wrong in one way, and keeps the first of them."""

    count: int = 0
    offset: int | None = None
    """Offset of the first one's change."""
    key: str = ""

    def add(self, count: int, *, offset: int | None, key: str = "") -> None:
        """Count more, the first of which was changed at an offset."""
        is_first = self.offset is None or (offset is not None and offset < self.offset)
        if not self.count or (is_first and offset is not None):
            self.offset, self.key = offset, key
        self.count += count


@dataclass(slots=True)
class StateCompare:
    """Compares the rows of a state, in any order, with the last change of each key."""

    prints: Prints
    held: Changes
    """The last change of each key, ordered by print."""
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
        """Count the keys of the changelog that had no row."""
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
    """Find the positions that occurred before among these."""
    order = np.argsort(places, kind="stable")
    is_second = np.append([False], places[order][1:] == places[order][:-1])[: len(places)]
    mask = np.zeros(len(places), np.bool_)
    mask[order] = is_second & (places[order] >= 0)
    return mask


SAMPLE_ROWS = 10_000


@dataclass(slots=True)
class Sample:
    """Keeps about this many rows, spread evenly over all rows."""

    _parts: list[pa.RecordBatch] = field(default_factory=list)
    _stride: int = 1
    _count: int = 0

    def take(self, rows: pa.RecordBatch) -> None:
        """Consider more rows."""
        places = np.arange(-self._count % self._stride, rows.num_rows, self._stride)
        self._count += rows.num_rows
        if len(places):
            self._parts.append(rows.take(pa.array(places)))
        if sum(part.num_rows for part in self._parts) >= 2 * SAMPLE_ROWS:
            joined = pa.concat_batches(self._parts)
            self._parts = [joined.take(pa.array(np.arange(0, joined.num_rows, 2)))]
            self._stride *= 2

    def rows(self) -> pa.RecordBatch | None:
        """The rows that were kept; None if there are none."""
        return pa.concat_batches(self._parts) if self._parts else None


# Decoding the batches of a log into rows and changes.

_NO_END = 2**63 - 1


class RowReading:
    """Decodes the rows of batches, one batch after the other."""

    def __init__(self, audited: AuditedBucket) -> None:
        self._audited = audited
        self._reader = LogReader(audited.cluster, RowView.of(audited.table))
        self._source = BatchOrigin(audited.bucket, audited.place.partition, is_projected=False)
        self.row_count = 0

    async def decoded(self, batches: Sequence[FetchedBatch]) -> list[LogBatch | None]:
        """Decode batches; None for a batch that cannot be decoded."""
        try:
            await self._reader.prepare(batches)
        except HeadwaterError as fault:
            self._unreadable(batches[0], fault)
            return [None]
        return await aside(lambda: [each for batch in batches for each in self._decode(batch)])

    def _decode(self, batch: FetchedBatch) -> list[LogBatch | None]:
        wanted = OffsetRange(batch.header.base_offset, _NO_END)
        try:
            found = self._reader.read([batch], wanted, source=self._source)
            for each in found:
                each.rows.validate(full=True)
        except (HeadwaterError, pa.ArrowInvalid) as fault:
            self._unreadable(batch, fault)
            return [None]
        self.row_count += sum(each.rows.num_rows for each in found)
        return [*found]

    def _unreadable(self, batch: FetchedBatch, fault: Exception) -> None:
        why = fault.message if isinstance(fault, HeadwaterError) else str(fault)
        self._audited.bad(
            Check.READABLE,
            f"The rows of the batch at offset {batch.header.base_offset} cannot be decoded: {why}",
            offset=batch.header.base_offset,
            remedy=("Its checksum is right, so it was written like that: write the rows again."),
        )


class RowContents:
    """Decodes every row of a log table."""

    def __init__(self, audited: AuditedBucket) -> None:
        self._reading = RowReading(audited)

    @property
    def row_count(self) -> int:
        """Number of rows decoded."""
        return self._reading.row_count

    async def take(self, batches: Sequence[FetchedBatch]) -> None:
        """Decode batches."""
        await self._reading.decoded(batches)

    def begin_anew(self) -> None:
        """Nothing to forget: rows of a log table are independent."""


class ChangeContents:
    """Folds the changes of a primary-key table."""

    def __init__(self, audited: AuditedBucket, *, rules: ChangeRules, is_whole: bool) -> None:
        self._reading = RowReading(audited)
        self.prints = Prints(audited.table)
        self.fold = ChangeFold(rules, is_whole)
        self.sample = Sample()
        """Some of the changed rows, for servers that cannot return all rows."""

    async def take(self, batches: Sequence[FetchedBatch]) -> None:
        """Decode the changes of batches and fold them."""
        decoded = await self._reading.decoded(batches)
        await aside(self._take, decoded)

    def begin_anew(self) -> None:
        """Forget what was folded, because changes after it are unknown."""
        self.fold.begin_anew()

    def _take(self, decoded: Sequence[LogBatch | None]) -> None:
        for batch in decoded:
            if batch is None or batch.changes is None:
                self.fold.begin_anew()
                continue
            keys, rows = self.prints.keys(batch.rows), self.prints.rows(batch.rows)
            self.fold.add(Changes(batch.changes, keys, rows, batch.offsets))
            self.sample.take(batch.rows)


class ChangeCounts:
    """Counts the rows that the changes of a primary-key table leave, without decoding them."""

    def __init__(self, *, is_whole: bool) -> None:
        self.is_whole = is_whole
        self.row_count = 0

    async def take(self, batches: Sequence[FetchedBatch]) -> None:
        """Count inserts and deletes."""
        for batch in batches:
            if batch.header.is_append_only:
                continue
            sections = read_sections(batch.data, batch.header)
            section = batch.data[sections.changes_start : sections.changes_end]
            types = np.frombuffer(section, np.uint8)
            self.row_count += int(np.count_nonzero(types == ChangeType.INSERT))
            self.row_count -= int(np.count_nonzero(types == ChangeType.DELETE))

    def begin_anew(self) -> None:
        """Remember that changes are missing."""
        self.is_whole = False
