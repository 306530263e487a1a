"""Merging the runs of a bucket: of each key, the row that was written last."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.lake.folding import KeySet, in_key_order, last_of_each
from headwater.lake.paimon.layout import DELETED, KIND, SEQUENCE
from headwater.lake.paimon.manifests import DataFile

_UPDATE_BEFORE = 1


def merged_rows(runs: Sequence[pa.Table], keys: Sequence[str], *, is_sorted: bool) -> pa.Table:
    """Return the current rows of runs that carry what orders them, optionally by key."""
    rows = _current(_ascending(runs), keys)
    # A key whose last row says that it goes is gone.
    gone = pa.array([_UPDATE_BEFORE, DELETED], pa.int8())
    kept = rows.filter(pc.invert(pc.is_in(rows.column(KIND), value_set=gone)))
    return kept.take(pa.array(in_key_order(_of(kept, keys)))) if is_sorted else kept


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


def _of(rows: pa.Table, keys: Sequence[str]) -> list[pa.ChunkedArray]:
    return [rows.column(key) for key in keys]


def is_merged(files: Sequence[DataFile]) -> bool:
    """Tell whether the rows of files are the current ones as they are."""
    if any(file.delete_count for file in files):
        return False
    levels = {file.level for file in files}
    # Files of one level above the first one do not overlap.
    return len(files) <= 1 or (len(levels) == 1 and levels != {0})


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
