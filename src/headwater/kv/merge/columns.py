"""The merge rules that make a new row of the held and the written one, column by column."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater import errors
from headwater.kv.merge.aggregate import Rounds
from headwater.kv.merge.batch import (
    Effect,
    MergeBatch,
    MergeRows,
    Outcome,
    Turns,
    effects_of,
    outcome_of,
)
from headwater.kv.merge.bitmaps import check32, check64
from headwater.model import Column
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.rows.compute import pc

# The columns whose value after each record is one that was held or written before.


def kept(turns: Turns, held: pa.Array) -> pa.Array:
    """Return what is held, whatever is written."""
    return held.take(pa.array(turns.keys))


def last_value(turns: Turns, written: pa.Array) -> pa.Array:
    """Return what is written; a delete writes nothing."""
    return written.take(pa.array(turns.records))


def last_present_value(
    turns: Turns, *, held: pa.Array, written: pa.Array, through_deletes: bool
) -> pa.Array:
    """Return the last value that was not missing, since a delete unless it is to pass through."""
    is_mark = _is_valid(written)[turns.records]
    if not through_deletes:
        is_mark |= turns.is_delete
    turn = turns.latest(is_mark)
    # A delete's row is null, so that to show it is to show a missing value.
    return _shown(held, written, np.where(turn < 0, turns.keys, len(held) + turns.records[turn]))


def first_value(turns: Turns, *, held: pa.Array, written: pa.Array) -> pa.Array:
    """Return the first value since a delete that was not missing."""
    is_valid = _is_valid(written)[turns.records]
    here = np.arange(len(turns.keys))
    deleted = turns.latest(turns.is_delete)
    since = np.where(deleted < 0, turns.starts, deleted)
    upcoming = np.where(is_valid, here, len(here))
    first = np.minimum.accumulate(upcoming[::-1])[::-1][since]
    is_found = first <= here
    rows = len(held) + turns.records[np.where(is_found, first, here)]
    holds = (deleted < 0) & _is_valid(held)[turns.keys]
    return _shown(held, written, np.where(holds, turns.keys, rows))


def _shown(held: pa.Array, written: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    return pa.concat_arrays([held, written]).take(pa.array(rows))


def _is_valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    return pc.is_valid(column).to_numpy(zero_copy_only=False)


# The merge of one column by its rule.


class Role(Enum):
    """Name the columns that are not aggregated."""

    KEY = auto()
    KEPT = auto()
    NUMBERED = auto()


Rule = Role | AggregateFunction


class Side(Enum):
    """Name where the values of a column come from, if all come from one side."""

    HELD = auto()
    WRITTEN = auto()
    BOTH = auto()


@dataclass(frozen=True, slots=True)
class ColumnMerge:
    """Hold what the merge of every column of a batch needs to know."""

    batch: MergeBatch
    rounds: Rounds
    effects: npt.NDArray[np.uint8]
    is_plain: bool

    def merge(self, rule: Rule, *, held: pa.Array, written: pa.Array) -> pa.Array:
        """Return the value of a column after each turn."""
        if self.is_plain and (side := _side(rule, held, written)) is not Side.BOTH:
            return written if side is Side.WRITTEN else kept(self.batch.turns, held)
        return self._merged(rule, held=held, written=written)

    def _merged(self, rule: Rule, *, held: pa.Array, written: pa.Array) -> pa.Array:
        turns = self.batch.turns
        match rule:
            case Role.KEY:
                return last_present_value(turns, held=held, written=written, through_deletes=True)
            case Role.KEPT:
                return kept(turns, held)
            case Role.NUMBERED:
                return self._numbered(held)
            case AggregateFunction(kind=kind) if kind in _CHOICES:
                return _CHOICES[kind](self, held, written)
            case AggregateFunction():
                by_turn = last_value(turns, written)
                return self.rounds.fold(rule, held=held, written=by_turn)

    def _numbered(self, held: pa.Array) -> pa.Array:
        """Give each inserted row the next number, in the order of the records."""
        turns, ids = self.batch.turns, self.batch.ids
        assert ids is not None, "a table with numbered rows needs a source of numbers"
        inserted = np.flatnonzero(self.effects == Effect.INSERT)
        inserted = inserted[np.argsort(turns.records[inserted])]
        numbers = np.asarray(ids(len(inserted)), dtype=np.int64)
        largest = np.iinfo(np.int32 if pa.types.is_int32(held.type) else np.int64).max
        if len(numbers) and numbers.max() > largest:
            raise errors.NumbersExhaustedError(f"The next number is over {largest}.")
        rows = np.arange(len(held))
        rows[turns.keys[inserted]] = len(held) + np.arange(len(inserted))
        pool = pa.concat_arrays([held, pa.array(numbers).cast(held.type)])
        return pool.take(pa.array(rows[turns.keys]))


def _side(rule: Rule, held: pa.Array, written: pa.Array) -> Side:
    """Tell which side a merged column is, where each key is written once and none is deleted.

    A missing value gives way to the other side in every function but the one that takes whatever is
    written last. Writes of few rows mostly leave columns out, and need no more than this.
    """
    if rule is Role.KEY:
        return Side.WRITTEN
    if not isinstance(rule, AggregateFunction):
        return Side.BOTH
    kind = rule.kind
    if kind is AggregateKind.LAST_VALUE or held.null_count == len(held):
        return Side.WRITTEN
    if written.null_count == len(written):
        return Side.HELD
    if kind is AggregateKind.LAST_VALUE_IGNORE_NULLS and not written.null_count:
        return Side.WRITTEN
    if _CHOICES.get(kind) is _first and not held.null_count:
        return Side.HELD
    return Side.BOTH


def _last_present(merging: ColumnMerge, held: pa.Array, written: pa.Array) -> pa.Array:
    turns = merging.batch.turns
    return last_present_value(turns, held=held, written=written, through_deletes=False)


def _first(merging: ColumnMerge, held: pa.Array, written: pa.Array) -> pa.Array:
    return first_value(merging.batch.turns, held=held, written=written)


def _last(merging: ColumnMerge, _held: pa.Array, written: pa.Array) -> pa.Array:
    return last_value(merging.batch.turns, written)


# Fluss lets the first value be replaced while it is missing, so both kinds of first are one.
_CHOICES: Final[dict[AggregateKind, Callable[[ColumnMerge, pa.Array, pa.Array], pa.Array]]] = {
    AggregateKind.LAST_VALUE: _last,
    AggregateKind.LAST_VALUE_IGNORE_NULLS: _last_present,
    AggregateKind.FIRST_VALUE: _first,
    AggregateKind.FIRST_VALUE_IGNORE_NULLS: _first,
}
_CHECKS: Final = {AggregateKind.RBM32: check32, AggregateKind.RBM64: check64}


def needs_check(rule: Rule) -> bool:
    """Tell whether written values can be malformed."""
    return isinstance(rule, AggregateFunction) and rule.kind in _CHECKS


def check_written(rule: Rule, written: pa.Array) -> None:
    """Refuse malformed values at once: kept, they would fail every later merge of their key."""
    if isinstance(rule, AggregateFunction) and rule.kind in _CHECKS:
        for content in written.drop_null().to_pylist():
            _CHECKS[rule.kind](content)


def check_merged(column: Column, merged: pa.Array, *, is_present: npt.NDArray[np.bool_]) -> None:
    """Refuse a sum or product that got lost in a column that must have a value."""
    if column.type.nullable or not merged.null_count:
        return
    is_missing = merged.is_null().to_numpy(zero_copy_only=False)
    if (is_missing & is_present).any():
        raise errors.ValueOverflowError("A merged value does not fit, and the column is NOT NULL.")


@contextmanager
def naming(column: Column) -> Iterator[None]:
    """Name the column in errors about its values."""
    try:
        yield
    except (
        errors.InvalidValueError,
        errors.NumbersExhaustedError,
        errors.RecordTooLargeError,
        errors.ValueOverflowError,
    ) as error:
        message = f"Column '{column.name}': {error.message}"
        raise type(error)(message, hint=error.hint) from error


# The merge rules that make a new row of the held and the written one, column by column.


@dataclass(frozen=True, slots=True)
class Combining:
    """Merge each column by its rule; columns that are not written keep their value.

    A delete takes the written columns only, and the row with them unless it has others.
    """

    columns: tuple[Column, ...]
    rules: tuple[Rule, ...]
    skips_updates: bool = False

    def decide(self, batch: MergeBatch) -> Outcome:
        """Decide what each record does, then make the rows that show it.

        1. Check what is written before anything depends on it.
        2. Find the rows that a delete leaves standing.
        3. Follow from turn to turn whether a row is present.
        4. Merge column by column, unless every shown row is one that was written.
        """
        rows = MergeRows(batch.writes)
        self._check(rows)
        effects = self._effects(batch, is_anchored=self._anchored(batch, rows))
        is_made = effects == Effect.UPDATE
        is_inserted = effects == Effect.INSERT
        if is_inserted.any() and self._remakes_inserts(rows):
            is_made |= is_inserted
        after = batch.writes.key_count + batch.turns.records
        if not is_made.any():
            return outcome_of(batch, effects=effects, after=after)
        combined = self._combined(batch, rows, effects=effects)
        if not is_made.all():
            combined = combined.take(pa.array(np.flatnonzero(is_made)))
        first = batch.writes.key_count + batch.writes.record_count
        after = np.where(is_made, first + np.cumsum(is_made) - 1, after)
        return outcome_of(batch, effects=effects, after=after, combined=combined)

    def _check(self, rows: MergeRows) -> None:
        for at, (column, rule) in enumerate(zip(self.columns, self.rules, strict=True)):
            if needs_check(rule):
                with naming(column):
                    check_written(rule, rows.written.column(at))

    def _positions(self, role: Role) -> list[int]:
        return [at for at, rule in enumerate(self.rules) if rule is role]

    def _anchored(self, batch: MergeBatch, rows: MergeRows) -> npt.NDArray[np.bool_]:
        """Tell for each key whether its row has a value that no delete of this batch takes.

        Such a value is in a column that is not written, so it stays as it is; a number is given
        with the row itself.
        """
        key_count = batch.writes.key_count
        if self._positions(Role.NUMBERED):
            return np.ones(key_count, dtype=np.bool_)
        found = np.zeros(key_count, dtype=np.bool_)
        if batch.turns.is_delete.any() and batch.writes.is_held.any():
            for at in self._positions(Role.KEPT):
                found |= pc.is_valid(rows.held.column(at)).to_numpy(zero_copy_only=False)
        return found

    def _effects(
        self, batch: MergeBatch, *, is_anchored: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.uint8]:
        turns = batch.turns
        is_held, stands = batch.writes.is_held[turns.keys], is_anchored[turns.keys]
        previous = turns.earlier(np.ones(len(turns.keys), dtype=np.bool_))
        was_written = turns.earlier(~turns.is_delete) >= 0
        survived = np.where(previous < 0, is_held, ~turns.is_delete[previous])
        is_present = np.where(stands, is_held | was_written, survived)
        effects = effects_of(is_delete=turns.is_delete, is_present=is_present)
        if self.skips_updates:
            effects[effects == Effect.UPDATE] = Effect.NOTHING
        effects[(effects == Effect.DELETE) & stands] = Effect.UPDATE
        return effects

    def _remakes_inserts(self, rows: MergeRows) -> bool:
        """Tell whether an inserted row differs from the written one."""
        if self._positions(Role.NUMBERED):
            return True
        return any(
            rows.written.column(at).null_count < rows.written.num_rows
            for at in self._positions(Role.KEPT)
        )

    def _combined(
        self, batch: MergeBatch, rows: MergeRows, *, effects: npt.NDArray[np.uint8]
    ) -> pa.RecordBatch:
        """Return the row of each turn's key after it."""
        turns = batch.turns
        merging = ColumnMerge(batch, Rounds.of(turns), effects, turns.is_plain)
        is_present = (effects == Effect.UPDATE) | (effects == Effect.INSERT)
        columns = []
        for at, (column, rule) in enumerate(zip(self.columns, self.rules, strict=True)):
            held, written = rows.held.column(at), rows.written.column(at)
            with naming(column):
                merged = merging.merge(rule, held=held, written=written)
                check_merged(column, merged, is_present=is_present)
            columns.append(merged)
        return pa.RecordBatch.from_arrays(columns, schema=rows.written.schema)
