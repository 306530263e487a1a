"""The choice of the merge rule for a write, and the way of a batch through it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater import errors
from headwater.config.options import ChangelogImage, DeleteBehavior, MergeEngine
from headwater.config.table_options import KvOptions
from headwater.kv.merge.batch import (
    Effect,
    Ids,
    MergeBatch,
    MergePlan,
    Outcome,
    Turns,
    Writes,
    effects_of,
    outcome_of,
    plan_of,
)
from headwater.kv.merge.bitmaps import require_bitmaps
from headwater.kv.merge.columns import Combining, Role, Rule, needs_check
from headwater.model import Schema
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.types import BigIntType, IntType, TimestampLtzType, TimestampType
from headwater.rows.compute import pc

# The merge rules that keep one of the rows as it is: the last, the first, the newest.


@dataclass(frozen=True, slots=True)
class LastRow:
    """Keep the row that was written last."""

    def decide(self, batch: MergeBatch) -> Outcome:
        """Decide by the kinds of records alone; no row is looked at."""
        writes, turns = batch.writes, batch.turns
        previous = turns.earlier(np.ones(len(turns.keys), dtype=np.bool_))
        is_present = np.where(previous < 0, writes.is_held[turns.keys], ~turns.is_delete[previous])
        effects = effects_of(is_delete=turns.is_delete, is_present=is_present)
        return outcome_of(batch, effects=effects, after=writes.key_count + turns.records)


@dataclass(frozen=True, slots=True)
class FirstRow:
    """Keep the row that was written first."""

    def decide(self, batch: MergeBatch) -> Outcome:
        """Decide by the kinds of records alone; no row is looked at."""
        writes, turns = batch.writes, batch.turns
        assert not turns.is_delete.any()
        is_new = turns.is_first & ~writes.is_held[turns.keys]
        effects = np.where(is_new, Effect.INSERT, Effect.NOTHING).astype(np.uint8)
        return outcome_of(batch, effects=effects, after=writes.key_count + turns.records)


@dataclass(frozen=True, slots=True)
class Versioned:
    """Keep the row with the largest version, and among equals the last."""

    column: int

    def decide(self, batch: MergeBatch) -> Outcome:
        """Decide by comparing each version with the largest one before it."""
        writes, turns = batch.writes, batch.turns
        assert not turns.is_delete.any()
        wins = self._wins(writes, turns)
        is_inserted = turns.is_first & ~writes.is_held[turns.keys]
        effects = np.where(wins, Effect.UPDATE, Effect.NOTHING)
        effects = np.where(is_inserted, Effect.INSERT, effects).astype(np.uint8)
        return outcome_of(batch, effects=effects, after=writes.key_count + turns.records)

    def _wins(self, writes: Writes, turns: Turns) -> npt.NDArray[np.bool_]:
        """Tell which records have a version no smaller than all before; absence is smallest."""
        if not len(turns.keys):
            return np.empty(0, dtype=np.bool_)
        ranks = self._ranks(writes, turns)
        held, written = ranks[: writes.key_count][turns.keys], ranks[writes.key_count :]
        rank_count = int(ranks.max()) + 1
        # Each key's ranks lie above those of the key before it, so one running maximum serves all.
        base = np.cumsum(turns.is_first) * rank_count
        running = np.maximum.accumulate(base + np.maximum(held, written))
        before = base + held
        before[1:] = np.maximum(before[1:], running[:-1])
        return base + written >= before

    def _ranks(self, writes: Writes, turns: Turns) -> npt.NDArray[np.int64]:
        written = _versions(writes.written().column(self.column))[turns.records]
        if not writes.is_held.any():
            held = np.empty(writes.key_count, dtype=np.int64)
        else:
            held = _versions(writes.held().column(self.column))
        ranks = np.unique(np.concatenate((held, written)), return_inverse=True)[1] + 1
        ranks[: writes.key_count][~writes.is_held] = 0
        return ranks


def _versions(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return versions as numbers, a missing one as the smallest of its type."""
    if pa.types.is_int32(column.type):
        smallest, numbers = np.iinfo(np.int32).min, column
    else:
        smallest, numbers = np.iinfo(np.int64).min, column.view(pa.int64())
    filled = pc.fill_null(numbers, pa.scalar(smallest, numbers.type))
    return filled.to_numpy().astype(np.int64)


# The choice of the merge rule for a write to a primary-key table.


class Decider(Protocol):
    """Decide what the records of a batch do to the rows of their keys."""

    def decide(self, batch: MergeBatch) -> Outcome:
        """Return what each record does."""
        ...


class Engine(Protocol):
    """Merge the records of a batch under a rule for deletes."""

    @property
    def rule(self) -> Decider:
        """What decides which record of a key stays."""
        ...

    @property
    def delete_behavior(self) -> DeleteBehavior:
        """Whether deletes are taken, ignored or refused."""
        ...

    @property
    def is_blind(self) -> bool:
        """Tell whether the rule needs no held row, so that an insert may show as an update."""
        ...


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """Hold a merge rule and what goes with it."""

    rule: Decider
    delete_behavior: DeleteBehavior
    is_blind: bool = False


_LAST = AggregateFunction(AggregateKind.LAST_VALUE)
_LAST_PRESENT = AggregateFunction(AggregateKind.LAST_VALUE_IGNORE_NULLS)
_VERSION_TYPES = (IntType, BigIntType, TimestampType, TimestampLtzType)


def delete_behavior_of(options: KvOptions) -> DeleteBehavior:
    """Return what becomes of deletes: unless said otherwise a merge engine ignores them."""
    if options.delete_behavior is not None:
        return options.delete_behavior
    return DeleteBehavior.ALLOW if options.merge_engine is None else DeleteBehavior.IGNORE


def engine_of(
    schema: Schema, options: KvOptions, *, target_columns: Sequence[int] | None, overwrite: bool
) -> Engine:
    """Choose the merge rule of a write; to overwrite is to set the table's merge engine aside."""
    targets = None if target_columns is None else frozenset(target_columns)
    _check_numbered(schema, targets)
    if overwrite:
        return _last_row(schema, targets, behavior=DeleteBehavior.ALLOW)
    behavior = delete_behavior_of(options)
    match options.merge_engine:
        case None:
            return _last_row(schema, targets, behavior=behavior)
        case MergeEngine.AGGREGATION:
            return ChosenEngine(_aggregating(schema, targets), behavior)
        case MergeEngine.FIRST_ROW:
            _refuse_targets(targets, MergeEngine.FIRST_ROW)
            return ChosenEngine(FirstRow(), _without_deletes(behavior))
        case MergeEngine.VERSIONED:
            _refuse_targets(targets, MergeEngine.VERSIONED)
            return ChosenEngine(_versioned(schema, options), _without_deletes(behavior))


def _last_row(
    schema: Schema, targets: Collection[int] | None, *, behavior: DeleteBehavior
) -> Engine:
    if targets is None or set(targets) == set(range(len(schema.columns))):
        return ChosenEngine(LastRow(), behavior, is_blind=True)
    _check_targets(schema, targets)
    rules = _rules(schema, targets, functions=[_LAST] * len(schema.columns))
    only_keys = set(targets) == _key_positions(schema)
    return ChosenEngine(Combining(schema.columns, rules, skips_updates=only_keys), behavior)


def _aggregating(schema: Schema, targets: Collection[int] | None) -> Combining:
    if targets is not None:
        _check_targets(schema, targets)
    functions = [column.aggregate or _LAST_PRESENT for column in schema.columns]
    rules = _rules(schema, targets, functions=functions)
    if any(needs_check(rule) for rule in rules):
        require_bitmaps()
    return Combining(schema.columns, rules)


def _rules(
    schema: Schema, targets: Collection[int] | None, *, functions: Sequence[AggregateFunction]
) -> tuple[Rule, ...]:
    def rule_of(position: int) -> Rule:
        name = schema.columns[position].name
        if name in schema.primary_key:
            return Role.KEY
        if name in schema.auto_increment:
            return Role.NUMBERED
        is_written = targets is None or position in targets
        return functions[position] if is_written else Role.KEPT

    return tuple(rule_of(position) for position in range(len(schema.columns)))


def _versioned(schema: Schema, options: KvOptions) -> Versioned:
    name = options.version_column
    if name is None:
        raise errors.InvalidTableError("The versioned merge engine needs a version column.")
    if not isinstance(schema.column(name).type, _VERSION_TYPES):
        raise errors.InvalidTableError(
            f"The version column '{name}' cannot be of type {schema.column(name).type}.",
            hint="A version is an INT, BIGINT, TIMESTAMP or TIMESTAMP_LTZ.",
        )
    return Versioned(schema.index_of(name))


def _without_deletes(behavior: DeleteBehavior) -> DeleteBehavior:
    """Ignore deletes where the catalog lets nobody allow them."""
    return DeleteBehavior.IGNORE if behavior is DeleteBehavior.ALLOW else behavior


def _refuse_targets(targets: Collection[int] | None, engine: MergeEngine) -> None:
    if targets is not None:
        raise errors.UnsupportedError(
            f"The merge engine {engine} does not support partial updates.", hint="Write whole rows."
        )


def _key_positions(schema: Schema) -> set[int]:
    return {schema.index_of(name) for name in schema.primary_key}


def _check_targets(schema: Schema, targets: Collection[int]) -> None:
    if outside := sorted(at for at in targets if not 0 <= at < len(schema.columns)):
        raise errors.InvalidTargetColumnError(
            f"There is no column number {outside[0]} among {len(schema.columns)}."
        )
    if missing := sorted(_key_positions(schema) - set(targets)):
        raise errors.InvalidTargetColumnError(
            f"A partial update lacks the key column '{schema.columns[missing[0]].name}'.",
            hint=f"Its columns must contain {', '.join(schema.primary_key)}.",
        )
    for column in schema.columns:
        if not column.type.nullable and column.name not in schema.primary_key:
            raise errors.InvalidTargetColumnError(
                f"Partial updates need nullable columns, but '{column.name}' is NOT NULL."
            )


def _check_numbered(schema: Schema, targets: Collection[int] | None) -> None:
    for name in schema.auto_increment:
        if targets is None or schema.index_of(name) in targets:
            raise errors.InvalidTargetColumnError(
                f"The auto-increment column '{name}' cannot be written.",
                hint="Name the target columns of the write and leave it out.",
            )


# The way of a batch through a merge rule, from its records to its changes.


def fold(
    engine: Engine, writes: Writes, *, image: ChangelogImage, ids: Ids | None = None
) -> MergePlan:
    """Apply the records of a batch in order and plan the changes; nothing is changed yet.

    1. Leave deletes aside, or refuse them, as the table says.
    2. Group the records by key.
    3. Let the rule decide what each record does.
    4. Write that down as changes of the log.
    """
    records = np.arange(writes.record_count)
    if engine.delete_behavior is not DeleteBehavior.ALLOW and writes.is_delete.any():
        if engine.delete_behavior is DeleteBehavior.DISABLE:
            raise errors.DeletionDisabledError("This table does not allow deletes.")
        records = np.flatnonzero(~writes.is_delete)
    turns = Turns.of(writes, records)
    outcome = engine.rule.decide(MergeBatch(writes, turns, ids))
    return plan_of(outcome, image=image, is_blind=engine.is_blind)
