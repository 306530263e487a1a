"""What a batch of writes does: the changes for the log and the rows to keep."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.config.choices import ChangelogImage
from headwater.kv.merge.outcome import Effect, Outcome
from headwater.rows.log_batch import ChangeType


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold the changes in log order and the row that is kept for each key.

    The pool of rows is held ++ written ++ combined, numbered 0..k-1, k..k+n-1 and k+n.. .
    A key that is absent afterwards has the row -1; one that is unchanged has its own number.
    """

    types: npt.NDArray[np.uint8]
    sources: npt.NDArray[np.int64]
    final: npt.NDArray[np.int64]
    combined: pa.RecordBatch | None


def plan_of(outcome: Outcome, *, image: ChangelogImage, is_blind: bool) -> Plan:
    """Write an outcome as changes; a blind engine does not tell inserts from updates."""
    if image is ChangelogImage.FULL:
        types, sources = _full_image(outcome)
    else:
        types, sources = _wal_image(outcome, inserts_as_updates=is_blind)
    return Plan(types=types, sources=sources, final=outcome.final, combined=outcome.combined)


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
