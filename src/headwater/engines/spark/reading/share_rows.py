"""The rows of a task's share, in the columns and the shape that are asked for."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.gathering import gathered
from headwater.client.reading.log_batch import LogBatch
from headwater.client.reading.state_at import StateAt
from headwater.client.virtual import VirtualKind
from headwater.engines.spark.reading.log_rows import LogRows
from headwater.engines.spark.reading.losses import lost_partition
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.splits import LogSplit, Share, StateSplit
from headwater.errors import PartitionMissingError
from headwater.model.bucket import TableBucket
from headwater.rows.log_batch import ChangeType
from headwater.runtime.events import Events

_AFTER = (ChangeType.INSERT, ChangeType.UPDATE_AFTER)
_events = Events("spark")


class ShareRows:
    """Read what one task has to."""

    def __init__(self, cluster: Cluster, reading: Reading) -> None:
        self._cluster = cluster
        self._reading = reading
        self._view = reading.view()
        self._shape = reading.shape(self._view)
        self._logs = LogRows(
            cluster,
            self._view,
            fails_on_loss=reading.fails_on_loss,
            reads_few=reading.limit is not None and reading.where is None,
        )

    async def batches(self, share: Share) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows in large batches, no more of them than the limit allows."""
        left = self._reading.limit
        async with aclosing(self._rows(share)) as found:
            async for rows in gathered(found):
                part = rows if left is None else rows.slice(0, left)
                yield part
                left = None if left is None else left - part.num_rows
                if left == 0:
                    return

    async def _rows(self, share: Share) -> AsyncGenerator[pa.RecordBatch, None]:
        logs: list[LogSplit] = []
        for split in share:
            if isinstance(split, LogSplit):
                logs.append(split)
                continue
            async for rows in self._state(split):
                yield rows
        # With a limit one after the other, as the first may have rows enough.
        together = [logs] if self._reading.limit is None else [[split] for split in logs]
        for group in together:
            async for rows in self._log(group):
                yield rows

    # ---- states

    async def _state(self, split: StateSplit) -> AsyncGenerator[pa.RecordBatch, None]:
        state = StateAt(
            self._cluster,
            self._view,
            place=split.place,
            bucket=split.bucket,
            at=split.at,
            # A stream meets them again in the log behind the state.
            keeps_unknown=not self._reading.follows,
        )
        try:
            async with aclosing(aiter(state)) as found:
                async for rows in found:
                    yield self._shaped(_inserted(rows, split))
        except PartitionMissingError as fault:
            if self._reading.fails_on_loss:
                raise lost_partition(self._reading.table, str(fault)) from fault
            _events.warning("bucket is gone", bucket=str(split.bucket))

    # ---- logs

    async def _log(self, splits: Sequence[LogSplit]) -> AsyncGenerator[pa.RecordBatch, None]:
        starts = {split.bucket: split.start for split in splits}
        async with aclosing(self._logs.read(splits)) as batches:
            async for batch in batches:
                yield self._shaped(self._begun(batch, starts))
        if self._reading.virtual is not VirtualKind.BINLOG or self._shape is None:
            return
        # An update belongs to where its first half is; the other half was written with it.
        halves = [
            LogSplit(split.place, split.bucket, split.end, split.end + 1)
            for split in splits
            if split.bucket in self._shape.held_offsets()
        ]
        async with aclosing(self._logs.read(halves)) as batches:
            async for batch in batches:
                yield self._shaped(batch)

    def _begun(self, batch: LogBatch, starts: dict[TableBucket, int]) -> LogBatch:
        """Leave out the half of an update whose other half lies before the start."""
        if self._reading.virtual is not VirtualKind.BINLOG or batch.changes is None:
            return batch
        is_first = len(batch.offsets) and batch.offsets[0] == starts[batch.bucket]
        if not is_first or batch.changes[0] != ChangeType.UPDATE_AFTER:
            return batch
        return replace(
            batch,
            rows=batch.rows.slice(1),
            changes=batch.changes[1:],
            offsets=batch.offsets[1:],
        )

    def _shaped(self, batch: LogBatch) -> pa.RecordBatch:
        if self._shape is not None:
            return self._shape.of(batch).rows
        if batch.changes is None:
            return batch.rows
        is_after = np.isin(batch.changes, _AFTER)
        return batch.rows if is_after.all() else batch.rows.filter(pa.array(is_after))


def _inserted(rows: pa.RecordBatch, split: StateSplit) -> LogBatch:
    """Return rows of a state as changes: inserts, all at the last offset that the state has."""
    return LogBatch(
        rows=rows,
        changes=np.full(rows.num_rows, ChangeType.INSERT, np.uint8),
        offsets=np.full(rows.num_rows, split.at - 1, np.int64),
        timestamp_ms=split.read_ms,
        bucket=split.bucket,
        partition=split.place.partition,
    )
