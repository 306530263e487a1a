"""Large batches made of small ones, as each costs those who take them the same."""

from collections.abc import AsyncIterator

import pyarrow as pa

ROWS_WANTED = 65_536
# Of this size, a batch is not copied for the sake of more rows.
ROWS_ENOUGH = 16_384
BYTES_ENOUGH = 1024 * 1024
BYTES_MAX = 16 * 1024 * 1024


async def gathered(batches: AsyncIterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    """Yield the rows in batches that are neither small nor huge, but for the last."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    async for batch in batches:
        if not batch.num_rows:
            continue
        is_enough = batch.num_rows >= ROWS_ENOUGH and batch.nbytes >= BYTES_ENOUGH
        if waiting and is_enough:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if is_enough or rows >= ROWS_WANTED or size >= BYTES_MAX:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
