"""The merge of one column by its rule."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import (
    InvalidValueError,
    NumbersExhaustedError,
    RecordTooLargeError,
    ValueOverflowError,
)
from headwater.kv.merge.batch import Batch
from headwater.kv.merge.bitmaps import check32, check64
from headwater.kv.merge.filling import first_value, kept, last_present_value, last_value
from headwater.kv.merge.outcome import Effect
from headwater.kv.merge.rounds import Rounds
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.schema import Column


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
class Merging:
    """Hold what the merge of every column of a batch needs to know."""

    batch: Batch
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
            raise NumbersExhaustedError(f"The next number is over {largest}.")
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


def _last_present(merging: Merging, held: pa.Array, written: pa.Array) -> pa.Array:
    turns = merging.batch.turns
    return last_present_value(turns, held=held, written=written, through_deletes=False)


def _first(merging: Merging, held: pa.Array, written: pa.Array) -> pa.Array:
    return first_value(merging.batch.turns, held=held, written=written)


def _last(merging: Merging, _held: pa.Array, written: pa.Array) -> pa.Array:
    return last_value(merging.batch.turns, written)


# Fluss lets the first value be replaced while it is missing, so both kinds of first are one.
_CHOICES: Final[dict[AggregateKind, Callable[[Merging, pa.Array, pa.Array], pa.Array]]] = {
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
        raise ValueOverflowError("A merged value does not fit, and the column is NOT NULL.")


@contextmanager
def naming(column: Column) -> Iterator[None]:
    """Name the column in errors about its values."""
    try:
        yield
    except (
        InvalidValueError,
        NumbersExhaustedError,
        RecordTooLargeError,
        ValueOverflowError,
    ) as error:
        message = f"Column '{column.name}': {error.message}"
        raise type(error)(message, hint=error.hint) from error
