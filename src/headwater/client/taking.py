"""Rows taken from callers without holding up the loop that everything else runs on."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence, Sized

import pyarrow as pa

from headwater.client.rows_in import RowsLike, Wanted, wanted_batches

# Turning more than this many Python objects into columns takes longer than a hand-over.
INLINE_ROWS_MAX = 200
_ARROW = (pa.RecordBatch, pa.Table)


async def batches_of(rows: RowsLike, wanted: Wanted) -> AsyncIterator[pa.RecordBatch]:
    """Yield rows as batches that are as wanted.

    What is there as a whole is checked as a whole before the first batch is given, so that
    bad rows change nothing. What comes in a stream is checked as it comes.
    """
    batches = wanted_batches(rows, wanted)
    if is_whole(rows):
        is_quick = isinstance(rows, _ARROW) or _count(rows) <= INLINE_ROWS_MAX
        for batch in list(batches) if is_quick else await asyncio.to_thread(list, batches):
            yield batch
        return
    # The caller's own code may run here, and take its time.
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        yield batch


def is_whole(rows: RowsLike) -> bool:
    """Tell whether all rows are there already, rather than to come."""
    return isinstance(rows, Sized)


def _count(rows: RowsLike) -> int:
    return len(rows) if isinstance(rows, Sized) else 0


async def batch_of(rows: RowsLike, wanted: Wanted) -> pa.RecordBatch:
    """Return rows as a single batch."""
    if isinstance(rows, Mapping):  # Nearly always a single key, which has to be quick.
        batches = list(wanted_batches(rows, wanted))
    else:
        batches = [batch async for batch in batches_of(rows, wanted)]
    if len(batches) == 1:
        return batches[0]
    if batches:
        return pa.concat_batches(batches)
    return pa.RecordBatch.from_pylist([], schema=wanted.schema)


def columns_in(rows: RowsLike) -> tuple[str, ...] | None:
    """Return the columns that rows name, or None if they name none."""
    if isinstance(rows, Mapping):
        return tuple(rows)
    if isinstance(rows, _ARROW):
        return tuple(rows.schema.names)
    if isinstance(rows, Sequence) and rows and isinstance(rows[0], Mapping):
        return tuple(rows[0])
    return None
