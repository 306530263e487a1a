"""The merge rules that keep one of the rows as it is: the last, the first, the newest."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kv.merge.batch import Batch
from headwater.kv.merge.outcome import Effect, Outcome, effects_of, outcome_of
from headwater.kv.merge.turns import Turns
from headwater.kv.merge.writes import Writes


@dataclass(frozen=True, slots=True)
class LastRow:
    """Keep the row that was written last."""

    def decide(self, batch: Batch) -> Outcome:
        """Decide by the kinds of records alone; no row is looked at."""
        writes, turns = batch.writes, batch.turns
        previous = turns.earlier(np.ones(len(turns.keys), dtype=np.bool_))
        is_present = np.where(previous < 0, writes.is_held[turns.keys], ~turns.is_delete[previous])
        effects = effects_of(is_delete=turns.is_delete, is_present=is_present)
        return outcome_of(batch, effects=effects, after=writes.key_count + turns.records)


@dataclass(frozen=True, slots=True)
class FirstRow:
    """Keep the row that was written first."""

    def decide(self, batch: Batch) -> Outcome:
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

    def decide(self, batch: Batch) -> Outcome:
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
