"""A batch of writes on its way through a merge rule: records by key, outcomes, and the changes."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.config.options import ChangelogImage
from headwater.rows.log_batch import ChangeType

# The records of one batch, as the merge rules see them.


@dataclass(frozen=True, slots=True)
class Writes:
    """Hold n records on k keys; every key is written at least once.

    `written` has n rows, null rows for deletes; `held` has k rows, null rows where nothing is
    held. Both are called at most once, and only where the values matter.
    """

    key_of: npt.NDArray[np.int64]
    is_delete: npt.NDArray[np.bool_]
    is_held: npt.NDArray[np.bool_]
    written: Callable[[], pa.RecordBatch]
    held: Callable[[], pa.RecordBatch]

    @property
    def record_count(self) -> int:
        """Return the number of records, n."""
        return len(self.key_of)

    @property
    def key_count(self) -> int:
        """Return the number of keys, k."""
        return len(self.is_held)


# The records of a batch grouped by key, so that each key's records follow each other.

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Turns:
    """Hold the counted records key by key, in order within each key.

    A turn is a place in this grouping. `places` puts turns back into record order.
    """

    records: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    is_delete: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64] | None

    @classmethod
    def of(cls, writes: Writes, records: npt.NDArray[np.int64]) -> Self:
        """Group those records of a batch that count."""
        places, keys = None, writes.key_of
        if len(records) != writes.record_count:
            keys = keys[records]
        # Every key is written, so with as many records as keys none is written twice.
        if writes.record_count != writes.key_count:
            places = np.argsort(keys, kind="stable")
            records, keys = records[places], keys[places]
        is_delete = writes.is_delete[records]
        return cls(records, keys, is_delete, _starts(keys, is_distinct=places is None), places)

    @property
    def is_first(self) -> npt.NDArray[np.bool_]:
        """Tell which turns are the first of their key."""
        return self.starts == np.arange(len(self.starts))

    @property
    def is_plain(self) -> bool:
        """Tell whether every record counts, no key has two of them, and none is a delete."""
        if self.places is not None or self.is_delete.any():
            return False
        return np.array_equal(self.records, np.arange(len(self.records)))

    def latest(self, marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return for each turn the last marked turn of its key up to it, or -1."""
        turns = np.arange(len(marks))
        found = np.maximum.accumulate(np.where(marks, turns, -1))
        return np.where(found >= self.starts, found, -1)

    def earlier(self, marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return for each turn the last marked turn of its key before it, or -1."""
        if self.places is None:
            return np.full(len(marks), -1, dtype=np.int64)
        turns = np.arange(len(marks))
        found = np.full(len(marks), -1, dtype=np.int64)
        np.maximum.accumulate(np.where(marks, turns, -1)[:-1], out=found[1:])
        return np.where(found >= self.starts, found, -1)

    def in_record_order(self, by_turn: npt.NDArray[_T]) -> npt.NDArray[_T]:
        """Return what was found turn by turn in the order of the records."""
        if self.places is None:
            return by_turn
        by_record = np.empty_like(by_turn)
        by_record[self.places] = by_turn
        return by_record


def _starts(keys: npt.NDArray[np.int64], *, is_distinct: bool) -> npt.NDArray[np.int64]:
    turns = np.arange(len(keys))
    if is_distinct or not len(keys):
        return turns
    is_start = np.concatenate(([True], keys[1:] != keys[:-1]))
    return np.maximum.accumulate(np.where(is_start, turns, 0))


# One batch of writes on its way through a merge rule.

Ids = Callable[[int], npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class MergeBatch:
    """Hold writes, the turns of those that count, and the source of numbers for new rows."""

    writes: Writes
    turns: Turns
    ids: Ids | None = None


# The rows of a batch of writes, fetched when first asked for and then remembered.


class MergeRows:
    """Ask for the held and the written rows at most once."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    @cached_property
    def written(self) -> pa.RecordBatch:
        """Return a row for each record, null for deletes."""
        return self._writes.written()

    @cached_property
    def held(self) -> pa.RecordBatch:
        """Return a row for each key, null where nothing is held."""
        if self._writes.is_held.any():
            return self._writes.held()
        schema = self.written.schema
        columns = [pa.nulls(self._writes.key_count, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


# What each record of a batch does to the row of its key.

ABSENT: Final = -1


class Effect(IntEnum):
    """Name what one record does to the row of its key."""

    NOTHING = 0
    INSERT = 1
    UPDATE = 2
    DELETE = 3


def effects_of(
    *, is_delete: npt.NDArray[np.bool_], is_present: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    """Return what records do where a delete removes its row and a write replaces it."""
    return _EFFECTS[2 * is_delete.view(np.uint8) + is_present.view(np.uint8)]


_EFFECTS = np.array([Effect.INSERT, Effect.UPDATE, Effect.NOTHING, Effect.DELETE], dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Say what each record does, in record order, with rows as numbers in the pool.

    `before` matters for updates and deletes, `after` for inserts and updates.
    """

    effects: npt.NDArray[np.uint8]
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    final: npt.NDArray[np.int64]
    combined: pa.RecordBatch | None = None


def outcome_of(
    batch: MergeBatch,
    *,
    effects: npt.NDArray[np.uint8],
    after: npt.NDArray[np.int64],
    combined: pa.RecordBatch | None = None,
) -> Outcome:
    """Follow the row of each key from turn to turn and bring all into record order."""
    writes, turns = batch.writes, batch.turns
    rows = np.where(effects == Effect.DELETE, ABSENT, after)
    acted = effects != Effect.NOTHING
    previous = turns.earlier(acted)
    final = np.where(writes.is_held, np.arange(writes.key_count), ABSENT)
    # Of several values for one key numpy keeps the last, which is the last turn of the key.
    final[turns.keys[acted]] = rows[acted]
    return Outcome(
        effects=turns.in_record_order(effects),
        before=turns.in_record_order(np.where(previous < 0, turns.keys, rows[previous])),
        after=turns.in_record_order(after),
        final=final,
        combined=combined,
    )


# What a batch of writes does: the changes for the log and the rows to keep.


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Hold the changes in log order and the row that is kept for each key.

    The pool of rows is held ++ written ++ combined, numbered 0..k-1, k..k+n-1 and k+n.. .
    A key that is absent afterwards has the row -1; one that is unchanged has its own number.
    """

    types: npt.NDArray[np.uint8]
    sources: npt.NDArray[np.int64]
    final: npt.NDArray[np.int64]
    combined: pa.RecordBatch | None


def plan_of(outcome: Outcome, *, image: ChangelogImage, is_blind: bool) -> MergePlan:
    """Write an outcome as changes; a blind engine does not tell inserts from updates."""
    if image is ChangelogImage.FULL:
        types, sources = _full_image(outcome)
    else:
        types, sources = _wal_image(outcome, inserts_as_updates=is_blind)
    return MergePlan(types=types, sources=sources, final=outcome.final, combined=outcome.combined)


def _full_image(outcome: Outcome) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Lay out two places for each record, then drop the empty ones."""
    effects = outcome.effects
    types = _FULL[effects].ravel()
    sources = np.empty((len(effects), 2), dtype=np.int64)
    sources[:, 0] = np.where(effects == Effect.INSERT, outcome.after, outcome.before)
    sources[:, 1] = outcome.after
    is_shown = types != 0
    return types[is_shown], sources.ravel()[is_shown]


def _wal_image(
    outcome: Outcome, *, inserts_as_updates: bool
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    effects = outcome.effects
    types = (_WAL_BLIND if inserts_as_updates else _WAL)[effects]
    sources = np.where(effects == Effect.DELETE, outcome.before, outcome.after)
    is_shown = types != 0
    return types[is_shown], sources[is_shown]


_INSERT, _BEFORE = ChangeType.INSERT, ChangeType.UPDATE_BEFORE
_AFTER, _DELETE = ChangeType.UPDATE_AFTER, ChangeType.DELETE
_FULL = np.array([(0, 0), (_INSERT, 0), (_BEFORE, _AFTER), (_DELETE, 0)], dtype=np.uint8)
_WAL = np.array([0, _INSERT, _AFTER, _DELETE], dtype=np.uint8)
_WAL_BLIND = np.array([0, _AFTER, _AFTER, _DELETE], dtype=np.uint8)
