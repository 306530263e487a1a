"""Rows beside what was found for their keys."""

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
import pyarrow as pa

from headwater.engines.spark.lookups.answers import Answers, spread
from headwater.engines.spark.lookups.keys import NO_KEY
from headwater.rows.row_bytes import Longs

ROWS_OUT_MAX = 65_536


class How(StrEnum):
    """Name what becomes of a row for which nothing is found."""

    LEFT = "left"
    INNER = "inner"


def joined(
    batch: pa.RecordBatch, asked: Longs, answers: Answers, *, how: How, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield rows with the columns found for them, in the order in which the rows come."""
    has_key = asked != NO_KEY
    counts = np.zeros(len(asked), np.int64)
    counts[has_key] = answers.counts[asked[has_key]]
    starts = np.zeros(len(asked), np.int64)
    starts[has_key] = answers.starts[asked[has_key]]
    for first, end in _pieces(counts):
        piece = batch if end - first == batch.num_rows else batch.slice(first, end - first)
        yield _piece(
            piece, Answers(answers.rows, starts[first:end], counts[first:end]), how=how, names=names
        )


def _pieces(counts: Longs) -> Iterator[tuple[int, int]]:
    """Cut rows where what becomes of them would be too many for one batch."""
    ends = np.cumsum(np.maximum(counts, 1))
    first, before = 0, 0
    while first < len(counts):
        end = int(np.searchsorted(ends, before + ROWS_OUT_MAX, side="right"))
        end = max(end, first + 1)
        yield first, end
        first, before = end, int(ends[end - 1])


def _piece(
    batch: pa.RecordBatch, answers: Answers, *, how: How, names: tuple[str, ...]
) -> pa.RecordBatch:
    counts = answers.counts
    times = np.maximum(counts, 1) if how is How.LEFT else counts
    found = spread(answers.starts, times)
    rows = batch
    if (times != 1).any():
        rows = batch.take(pa.array(np.repeat(np.arange(len(times)), times)))
    has_found = np.repeat(counts > 0, times)
    places = pa.array(found) if has_found.all() else pa.array(found, mask=~has_found)
    columns = [column.take(places) for column in answers.rows.columns]
    fields = [field.with_name(name) for field, name in zip(answers.rows.schema, names, strict=True)]
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *columns], schema=pa.schema([*rows.schema, *fields])
    )
