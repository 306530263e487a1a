"""The columns whose value after each record is one that was held or written before."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kv.merge.turns import Turns


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
