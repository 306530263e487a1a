"""The rows of a share as a lake writer takes them: large batches, with what is deleted marked."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.draining import drained
from headwater.client.reading.fetcher import Fetcher
from headwater.client.reading.log_batch import LogBatch, Place
from headwater.client.reading.state_at import StateAt
from headwater.client.reading.view import View
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.rows.log_batch import ChangeType
from headwater.tiering.shares import LogShare, Share, StateShare
from headwater.tiering.system_columns import log_rows_filled, state_rows_filled

# Handing a batch to a thread and a file costs the same however few rows it has.
CHUNK_ROWS_MIN = 131_072
CHUNK_BYTES_MIN = 16 * 1024**2


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Hold rows in the order of the log."""

    rows: pa.RecordBatch
    deleted: pa.BooleanArray | None
    """For a table with a primary key: whether a row says that its key is gone."""


@dataclass(frozen=True, slots=True)
class ShareReader:
    """Read shares of one table under one schema."""

    cluster: Cluster
    table: TableInfo
    partition: str | None
    is_filled: bool = False
    """Whether rows get the columns that lake tables of older versions of Apache Fluss have."""

    async def chunks(self, share: Share) -> AsyncGenerator[Chunk, None]:
        """Yield what a share holds; ends when all of its offsets were read, rows or not."""
        found = self._log(share) if isinstance(share, LogShare) else self._state(share)
        waiting: list[Chunk] = []
        rows = size = 0
        async with aclosing(found) as pieces:
            async for piece in pieces:
                waiting.append(piece)
                rows += piece.rows.num_rows
                size += piece.rows.get_total_buffer_size()
                if rows >= CHUNK_ROWS_MIN or size >= CHUNK_BYTES_MIN:
                    yield _joined(waiting)
                    waiting, rows, size = [], 0, 0
        if waiting:
            yield _joined(waiting)

    async def _log(self, share: LogShare) -> AsyncGenerator[Chunk, None]:
        fetcher = Fetcher(self.cluster, View.of(self.table))
        place, bucket = self._place(share)
        offsets = share.offsets
        fetcher.follow(place, bucket, offset=offsets.start, end=offsets.end)
        try:
            async for batch in drained(fetcher, self.cluster, table=self.table.path):
                yield chunk_of(log_rows_filled(batch) if self.is_filled else batch)
        finally:
            await fetcher.close()

    async def _state(self, share: StateShare) -> AsyncGenerator[Chunk, None]:
        place, bucket = self._place(share)
        state = StateAt(
            self.cluster,
            View.of(self.table),
            place=place,
            bucket=bucket,
            at=share.at,
            # The next round meets such a row in the log, and puts the same in its place.
            keeps_unknown=True,
        )
        async with aclosing(aiter(state)) as found:
            async for rows in found:
                if rows.num_rows:
                    marks = _marks(np.zeros(rows.num_rows, bool))
                    yield Chunk(state_rows_filled(rows, bucket) if self.is_filled else rows, marks)

    def _place(self, share: Share) -> tuple[Place, TableBucket]:
        bucket = share.bucket
        return Place(self.partition, bucket.bucket), TableBucket(
            self.table.table_id, bucket.bucket, bucket.partition_id
        )


def chunk_of(batch: LogBatch) -> Chunk:
    """Return what a lake table takes of a batch: rows as they are after each change."""
    if batch.changes is None:
        return Chunk(batch.rows, None)
    is_before = batch.changes == ChangeType.UPDATE_BEFORE
    if not is_before.any():
        return Chunk(batch.rows, _marks(batch.changes == ChangeType.DELETE))
    rows = batch.rows.filter(pa.array(~is_before))
    return Chunk(rows, _marks(batch.changes[~is_before] == ChangeType.DELETE))


def _marks(deleted: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    return pa.array(deleted)


def _joined(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    marks = [chunk.deleted for chunk in chunks if chunk.deleted is not None]
    assert len(marks) in (0, len(chunks)), "a table has a primary key or it has none"
    return Chunk(
        pa.concat_batches([chunk.rows for chunk in chunks]),
        pa.concat_arrays(marks) if marks else None,
    )
