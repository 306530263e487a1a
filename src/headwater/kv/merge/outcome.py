"""What each record of a batch does to the row of its key."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.kv.merge.batch import Batch

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
    batch: Batch,
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
