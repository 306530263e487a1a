"""Merging the runs of a bucket: of each key, the row that was written last."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.lake.folding import KeyColumn, KeySet, in_key_order, last_of_each
from headwater.lake.paimon.layout import DELETED, KIND, SEQUENCE

_UPDATE_BEFORE = 1
_BATCH_ROWS = 131_072
_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


def merged_rows(runs: Sequence[pa.Table], keys: Sequence[str], *, is_sorted: bool) -> pa.Table:
    """Return the current rows of runs that carry what orders them, optionally by key."""
    kept = _left(_current(_ascending(runs), keys))
    return kept.take(pa.array(in_key_order(_of(kept, keys)))) if is_sorted else kept


def merged_stream(
    oldest: Iterator[pa.RecordBatch], newer: Sequence[pa.Table], keys: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the current rows of runs; all rows of the oldest one are older than all others.

    The oldest run, mostly by far the largest, is not held in memory.
    """
    rest = pa.concat_tables(_ascending(newer))
    rest = rest.take(pa.array(last_of_each(_of(rest, keys))))
    newest = KeySet.of(_of(rest, keys))
    for batch in oldest:
        kept = _left(batch.filter(pa.array(~newest.mask(_of(batch, keys)))))
        if kept.num_rows:
            yield kept
    yield from _left(rest).combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)


def _left(rows: _Rows) -> _Rows:
    """Return rows without those that say that their key goes, or went."""
    gone = pa.array([_UPDATE_BEFORE, DELETED], pa.int8())
    return rows.filter(pc.invert(pc.is_in(rows.column(KIND), value_set=gone)))


def _current(runs: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """Return the last row of each key; later runs hold later rows."""
    oldest, newer = runs[0], list(runs[1:])
    if not newer:
        return oldest.take(pa.array(last_of_each(_of(oldest, keys))))
    # The oldest run, mostly by far the largest, is only asked for the keys of the others.
    rest = pa.concat_tables(newer)
    rest = rest.take(pa.array(last_of_each(_of(rest, keys))))
    is_replaced = KeySet.of(_of(rest, keys)).mask(_of(oldest, keys))
    return pa.concat_tables([oldest.filter(pa.array(~is_replaced)), rest])


def _of(rows: pa.Table | pa.RecordBatch, keys: Sequence[str]) -> list[KeyColumn]:
    return [rows.column(key) for key in keys]


def _ascending(runs: Sequence[pa.Table]) -> list[pa.Table]:
    """Put later rows behind earlier ones: whole runs if they do not overlap, else row by row."""
    filled = [run for run in runs if run.num_rows]
    if not filled:
        return list(runs[:1])
    ends = [pc.min_max(run.column(SEQUENCE)) for run in filled]
    spans = sorted(
        (int(end["min"].as_py()), int(end["max"].as_py()), at) for at, end in enumerate(ends)
    )
    if all(left[1] < right[0] for left, right in pairwise(spans)):
        return [filled[at] for _, _, at in spans]
    rows = pa.concat_tables(filled)
    order = np.argsort(rows.column(SEQUENCE).to_numpy(), kind="stable")
    return [rows.take(pa.array(order))]
