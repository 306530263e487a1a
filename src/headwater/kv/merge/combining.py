"""The merge rules that make a new row of the held and the written one, column by column."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kv.merge.batch import Batch
from headwater.kv.merge.columns import (
    Merging,
    Role,
    Rule,
    check_merged,
    check_written,
    naming,
    needs_check,
)
from headwater.kv.merge.outcome import Effect, Outcome, effects_of, outcome_of
from headwater.kv.merge.rounds import Rounds
from headwater.kv.merge.rows import Rows
from headwater.model.schema import Column


@dataclass(frozen=True, slots=True)
class Combining:
    """Merge each column by its rule; columns that are not written keep their value.

    A delete takes the written columns only, and the row with them unless it has others.
    """

    columns: tuple[Column, ...]
    rules: tuple[Rule, ...]
    skips_updates: bool = False

    def decide(self, batch: Batch) -> Outcome:
        """Decide what each record does, then make the rows that show it.

        1. Check what is written before anything depends on it.
        2. Find the rows that a delete leaves standing.
        3. Follow from turn to turn whether a row is present.
        4. Merge column by column, unless every shown row is one that was written.
        """
        rows = Rows(batch.writes)
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

    def _check(self, rows: Rows) -> None:
        for at, (column, rule) in enumerate(zip(self.columns, self.rules, strict=True)):
            if needs_check(rule):
                with naming(column):
                    check_written(rule, rows.written.column(at))

    def _positions(self, role: Role) -> list[int]:
        return [at for at, rule in enumerate(self.rules) if rule is role]

    def _anchored(self, batch: Batch, rows: Rows) -> npt.NDArray[np.bool_]:
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
        self, batch: Batch, *, is_anchored: npt.NDArray[np.bool_]
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

    def _remakes_inserts(self, rows: Rows) -> bool:
        """Tell whether an inserted row differs from the written one."""
        if self._positions(Role.NUMBERED):
            return True
        return any(
            rows.written.column(at).null_count < rows.written.num_rows
            for at in self._positions(Role.KEPT)
        )

    def _combined(
        self, batch: Batch, rows: Rows, *, effects: npt.NDArray[np.uint8]
    ) -> pa.RecordBatch:
        """Return the row of each turn's key after it."""
        turns = batch.turns
        merging = Merging(batch, Rounds.of(turns), effects, turns.is_plain)
        is_present = (effects == Effect.UPDATE) | (effects == Effect.INSERT)
        columns = []
        for at, (column, rule) in enumerate(zip(self.columns, self.rules, strict=True)):
            held, written = rows.held.column(at), rows.written.column(at)
            with naming(column):
                merged = merging.merge(rule, held=held, written=written)
                check_merged(column, merged, is_present=is_present)
            columns.append(merged)
        return pa.RecordBatch.from_arrays(columns, schema=rows.written.schema)
