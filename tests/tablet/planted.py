"""Bugs that a person could have made in merging rows and in keeping them, one at a time."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from headwater.kv.merge import engine
from headwater.kv.merge.aggregate import Rounds
from headwater.kv.merge.batch import Turns, Writes
from headwater.kv.merge.engine import FirstRow, LastRow
from headwater.kv.store import Snapshot
from headwater.model.aggregate import AggregateFunction
from headwater.tablet import replay
from headwater.tablet.merge import PreparedPut
from headwater.tablet.pk_tablet import PkTablet
from headwater.tablet.replay import _Replay
from headwater.tablet.state_upkeep import StateUpkeep

Plant = Callable[[pytest.MonkeyPatch], None]


def first_of_a_batch_wins(patch: pytest.MonkeyPatch) -> None:
    """Take of several records of a key in one batch the first."""
    grouped = Turns.of

    def of(writes: Writes, records: npt.NDArray[np.int64]) -> Turns:
        _, first = np.unique(writes.key_of[records], return_index=True)
        return grouped(writes, records[np.sort(first)])

    patch.setattr(Turns, "of", staticmethod(of))


def deleted_in_the_log_only(patch: pytest.MonkeyPatch) -> None:
    """Leave rows in the state whose removal is in the log."""
    apply = PkTablet._apply

    def applied(tablet: PkTablet, prepared: PreparedPut, end_offset: int) -> None:
        apply(tablet, replace(prepared, removed=prepared.removed[:0]), end_offset)

    patch.setattr(PkTablet, "_apply", applied)


def columns_that_are_not_given_overwritten(patch: pytest.MonkeyPatch) -> None:
    """Write all columns of a partial update."""
    rules = engine._rules

    def of_all(schema: object, _targets: object, **named: object) -> object:
        return rules(schema, None, **named)

    patch.setattr(engine, "_rules", of_all)


def first_row_replaced(patch: pytest.MonkeyPatch) -> None:
    """Keep the last row where the first is to stay."""
    patch.setattr(FirstRow, "decide", LastRow.decide)


def aggregate_without_what_is_held(patch: pytest.MonkeyPatch) -> None:
    """Begin every sum anew with each batch."""
    fold = Rounds.fold

    def folded(
        rounds: Rounds, function: AggregateFunction, *, held: pa.Array, written: pa.Array
    ) -> pa.Array:
        return fold(rounds, function, held=pa.nulls(len(held), held.type), written=written)

    patch.setattr(Rounds, "fold", folded)


def snapshot_without_its_last_row(patch: pytest.MonkeyPatch) -> None:
    """Save a state without the entry that came last."""
    noted = StateUpkeep._noted

    def shorter(upkeep: StateUpkeep) -> Snapshot:
        whole = noted(upkeep)
        return replace(whole, hashes=whole.hashes[:-1], locations=whole.locations[:-1])

    patch.setattr(StateUpkeep, "_noted", shorter)


def snapshot_said_to_reach_further(patch: pytest.MonkeyPatch) -> None:
    """Replay the log from one batch too late."""
    take = _Replay.take

    def later(replaying: _Replay, batch: object) -> None:
        if hasattr(replaying, "has_begun"):
            take(replaying, batch)
        replaying.has_begun = True

    patch.setattr(_Replay, "take", later)


def replayed_deletes_ignored(patch: pytest.MonkeyPatch) -> None:
    """Bring rows back at a restart that were deleted."""
    read = replay.read_changelog

    def undeleted(*args: object) -> object:
        types, rows = read(*args)
        kept = np.flatnonzero(types != replay.ChangeType.DELETE)
        return types[kept], rows.take(pa.array(kept))

    patch.setattr(replay, "read_changelog", undeleted)


# Each with the machine that finds it.
BUGS: dict[Plant, str] = {
    first_of_a_batch_wins: "merging",
    columns_that_are_not_given_overwritten: "keyed",
    first_row_replaced: "merging",
    aggregate_without_what_is_held: "merging",
    deleted_in_the_log_only: "keyed",
    snapshot_without_its_last_row: "keyed",
    snapshot_said_to_reach_further: "keyed",
    replayed_deletes_ignored: "keyed",
}
