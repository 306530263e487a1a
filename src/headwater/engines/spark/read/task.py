"""The rows of a task's share, read ahead while Spark takes the last ones.

Rows come from ranges of logs or from a state at an offset. What is gone from a log before it
was read is an error, or is told and left out.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.cluster.cluster import Cluster
from headwater.engines.spark.options import FAIL_ON_DATA_LOSS
from headwater.engines.spark.read.selection import Reading, place_text
from headwater.engines.spark.read.splits import LogShare
from headwater.engines.spark.types import SparkBatches
from headwater.errors import OffsetOutOfRangeError, PartitionMissingError
from headwater.model import OffsetRange, TableBucket, TableInfo
from headwater.read.log_ranges import LogRanges
from headwater.read.log_scan import LIMITED_BYTES_MAX
from headwater.read.offsets import LogBatch, Place
from headwater.read.polls import FetchSize
from headwater.read.sources import gathered, up_to
from headwater.read.split import LogRange, StateAt
from headwater.read.state import StateReader, inserted
from headwater.read.virtual import VirtualKind
from headwater.rows.log_batch import ChangeType
from headwater.runtime.events import Events
from headwater.runtime.loops import LoopThread
from headwater.runtime.tasks import Tasks

# Rows that were not read yet and are gone: how that is told.

_GO_ON = f".option('{FAIL_ON_DATA_LOSS.name}', 'false')"
_events = Events("spark")


def lost_offsets(table: TableInfo, lost: Mapping[Place, OffsetRange]) -> OffsetOutOfRangeError:
    """Say which rows were removed by retention."""
    keys = table.descriptor.partition_keys
    told = [
        f"bucket {place_text(place, keys)}: offsets {offsets.start} to {offsets.end}"
        for place, offsets in lost.items()
    ]
    return OffsetOutOfRangeError(
        f"Rows of {table.path} that were not read yet are gone ({'; '.join(told)}): the log no"
        " longer has them.",
        hint=f"Use {_GO_ON} to continue with the rows that are left, or start a new query with a"
        " new checkpoint. 'table.log.ttl' says how long rows are kept.",
    )


def lost_partition(table: TableInfo, what: str) -> PartitionMissingError:
    """Say that a partition was dropped with rows that were not read."""
    return PartitionMissingError(
        f"A partition of {table.path} was dropped before its rows were read: {what}",
        hint=f"Use {_GO_ON} to continue without them.",
    )


# The rows of a task's share, in the columns and the shape that are asked for.

_AFTER = (ChangeType.INSERT, ChangeType.UPDATE_AFTER)
# A task reads few buckets, so that each may fill more of an answer.
BUCKET_BYTES_MAX = 8 * 1024 * 1024


class ShareRows:
    """Read what one task has to."""

    def __init__(self, cluster: Cluster, reading: Reading) -> None:
        self._cluster = cluster
        self._reading = reading
        self._view = reading.view()
        self._shape = reading.shape(self._view)
        reads_few = reading.limit is not None and reading.where is None
        bucket_bytes = LIMITED_BYTES_MAX if reads_few else BUCKET_BYTES_MAX
        self._logs = LogRanges(
            cluster,
            self._view,
            size=FetchSize(cluster.settings.fetch_bytes_max, bucket_bytes),
            forgets_dropped=not reading.fails_on_loss,
            on_cut=self._cut,
        )

    async def batches(self, share: LogShare) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows in large batches, no more of them than the limit allows."""
        async with (
            aclosing(self._rows(share)) as found,
            aclosing(up_to(gathered(found), self._reading.limit)) as batches,
        ):
            async for rows in batches:
                yield rows

    async def _rows(self, share: LogShare) -> AsyncGenerator[pa.RecordBatch, None]:
        logs: list[LogRange] = []
        for split in share.splits:
            if isinstance(split, LogRange):
                logs.append(split)
                continue
            async for rows in self._state(split, read_ms=share.read_ms):
                yield rows
        # With a limit one after the other, as the first may have rows enough.
        together = [logs] if self._reading.limit is None else [[split] for split in logs]
        for group in together:
            async for rows in self._log(group):
                yield rows

    # ---- states

    async def _state(self, state: StateAt, *, read_ms: int) -> AsyncGenerator[pa.RecordBatch, None]:
        bucket = state.bucket_of(self._reading.table)
        # A stream meets rows that are not known again in the log behind the state.
        keeps_unknown = not self._reading.follows
        reader = StateReader(self._cluster, self._view, state, keeps_unknown=keeps_unknown)
        try:
            async with aclosing(aiter(reader)) as found:
                async for rows in found:
                    batch = inserted(rows, state, bucket=bucket, timestamp_ms=read_ms)
                    yield self._shaped(batch)
        except PartitionMissingError as fault:
            if self._reading.fails_on_loss:
                raise lost_partition(self._reading.table, str(fault)) from fault
            _events.warning("bucket is gone", bucket=str(bucket))

    # ---- logs

    async def _log(self, splits: Sequence[LogRange]) -> AsyncGenerator[pa.RecordBatch, None]:
        table = self._reading.table
        starts = {split.bucket_of(table): split.offsets.start for split in splits}
        async with aclosing(self._fetched(splits)) as batches:
            async for batch in batches:
                yield self._shaped(self._begun(batch, starts))
        if self._reading.virtual is not VirtualKind.BINLOG or self._shape is None:
            return
        # An update belongs to where its first half is; the other half was written with it.
        halves = [
            replace(split, offsets=OffsetRange(split.offsets.end, split.offsets.end + 1))
            for split in splits
            if split.bucket_of(table) in self._shape.held_offsets()
        ]
        async with aclosing(self._fetched(halves)) as batches:
            async for batch in batches:
                yield self._shaped(batch)

    async def _fetched(self, splits: Sequence[LogRange]) -> AsyncGenerator[LogBatch, None]:
        try:
            async with aclosing(self._logs.read(splits)) as batches:
                async for batch in batches:
                    yield batch
        except PartitionMissingError as fault:
            raise lost_partition(self._reading.table, str(fault)) from fault

    def _cut(self, lost: Mapping[Place, OffsetRange]) -> None:
        """Fail where rows are gone that were not read yet, or note it and go on without them."""
        table = self._reading.table
        if self._reading.fails_on_loss:
            raise lost_offsets(table, lost)
        for place, offsets in lost.items():
            bucket = place_text(place, table.descriptor.partition_keys)
            _events.warning(
                "rows are gone", table=str(table.path), bucket=bucket, until=offsets.end
            )

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


# Batches that are read ahead on the client's thread, while Spark takes the last ones.

AHEAD_MAX = 2

Read = Callable[[], AsyncGenerator[pa.RecordBatch, None]]


def pumped(loop: LoopThread, read: Read) -> Iterator[pa.RecordBatch]:
    """Yield what is read on another thread; a read that is left behind is ended."""
    pump = loop.run(_begun(read))
    try:
        while (batch := loop.run(pump.next())) is not None:
            yield batch
    finally:
        # Not waited for: whoever collects garbage may be the one who ends it.
        loop.start(pump.stop())


async def _begun(read: Read) -> "_Pump":
    return _Pump(read)


class _Pump:
    """Read batches before they are asked for, a few at most."""

    def __init__(self, read: Read) -> None:
        self._ready: asyncio.Queue[pa.RecordBatch | Exception | None] = asyncio.Queue(AHEAD_MAX)
        self._tasks = Tasks()
        self._tasks.start(self._run(read), name="read ahead")

    async def next(self) -> pa.RecordBatch | None:
        """Return more rows, None at the end, or raise why there are none."""
        found = await self._ready.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def stop(self) -> None:
        """End the reading."""
        await self._tasks.stop()

    async def _run(self, read: Read) -> None:
        try:
            async with aclosing(read()) as batches:
                await self._fill(batches)
        except Exception as fault:  # noqa: BLE001 - the outer edge of a task; the reader is told
            await self._ready.put(fault)
        else:
            await self._ready.put(None)

    async def _fill(self, batches: AsyncIterator[pa.RecordBatch]) -> None:
        async for batch in batches:
            await self._ready.put(batch)


# A task: the rows of its share, as Spark takes them.


def read_share(
    reading: Reading, share: LogShare, *, schema: StructType, truncates_nanoseconds: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a share, reading on while Spark takes them."""
    if not share.splits:
        return
    link = reading.link()
    rows = ShareRows(link.awaiting.cluster, reading)
    batches = SparkBatches(schema, truncates_nanoseconds=truncates_nanoseconds)
    for batch in pumped(link.loop, lambda: rows.batches(share)):
        yield batches.cast(batch)
