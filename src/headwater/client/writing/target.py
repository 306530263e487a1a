"""A table that is written to: where its rows go, and what becomes of those of one call."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.writing.batches import Piece
from headwater.client.writing.bucket_queue import INLINE_BYTES_MAX
from headwater.client.writing.partitions import Partitions
from headwater.client.writing.receipts import UNKNOWN_OFFSET, Delivery, Place, Receipt
from headwater.client.writing.sharing import Part, Turns
from headwater.client.writing.writers import Writers
from headwater.errors import HeadwaterError, PartitionMissingError
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo

K = TypeVar("K")
Plan = Callable[[K, pa.RecordBatch], Sequence[Part]]


class Target(Generic[K]):
    """Queue rows for the partitions and buckets of one table.

    The plan shares a batch out; it says where rows go, touches nothing, and may take long.
    """

    def __init__(
        self, cluster: Cluster, table: TableInfo, *, writers: Writers, plan: Plan[K]
    ) -> None:
        self._table = table
        self._writers = writers
        self._plan = plan
        self._rows_max = cluster.settings.batch_rows_max
        self._partitions = Partitions(cluster, table)
        self._turns: dict[str | None, Turns] = {}
        writers.know(table.table_id, table.path)

    def delivery(self) -> Delivery:
        """Begin a call."""
        return Delivery(self._noticed)

    async def deliver(self, batches: Iterable[tuple[K, pa.RecordBatch]]) -> Receipt:
        """Write the batches of one call, and wait for what became of them."""
        delivery = self.delivery()
        for kind, batch in self._slices(batches):
            try:
                parts = await self.parts(kind, batch)
            except HeadwaterError as fault:
                # What was queued before is still waited for, so that the caller is told of it.
                delivery.refused(batch.num_rows, fault)
                break
            await self.submit(parts, delivery)
            if delivery.has_failed:
                break
        return await delivery.receipt()

    def _slices(
        self, batches: Iterable[tuple[K, pa.RecordBatch]]
    ) -> Iterator[tuple[K, pa.RecordBatch]]:
        """Cut batches, so that some rows are on their way while others are still shared out."""
        for kind, batch in batches:
            for start in range(0, batch.num_rows, self._rows_max):
                yield kind, batch.slice(start, self._rows_max)

    async def parts(self, kind: K, batch: pa.RecordBatch) -> Sequence[Part]:
        """Share a batch out, in a thread where that takes long."""
        if batch.nbytes <= INLINE_BYTES_MAX:
            return self._plan(kind, batch)
        return await asyncio.to_thread(self._plan, kind, batch)

    async def submit(self, parts: Sequence[Part], delivery: Delivery) -> None:
        """Queue the rows of a batch; each part succeeds or fails on its own."""
        named = {part.partition for part in parts if part.makes_partition}
        await self._partitions.prepare([name for name in named if name is not None])
        for part in parts:
            try:
                await self._submit(part, delivery)
            except HeadwaterError as fault:
                delivery.refused(part.rows.count, fault)

    async def _submit(self, part: Part, delivery: Delivery) -> None:
        partition_id = None
        if part.partition is not None:
            partition_id = await self._partition_id(part, part.partition)
            if partition_id is None:
                # There is nothing to delete.
                delivery.submitted(part.rows.count)
                delivery.written(None, part.rows.count, UNKNOWN_OFFSET)
                return
        number = self._bucket(part, partition_id) if part.bucket is None else part.bucket
        bucket = TableBucket(self._table.table_id, number, partition_id)
        piece = Piece(part.rows, delivery, (part.partition, number))
        await self._writers.submit(bucket, part.lane, piece)

    async def _partition_id(self, part: Part, name: str) -> int | None:
        if part.makes_partition:
            return await self._partitions.ensure(name)
        return await self._partitions.find(name)

    def _bucket(self, part: Part, partition_id: int | None) -> int:
        turns = self._turns.get(part.partition)
        if turns is None:
            turns = self._turns[part.partition] = Turns(self._table.bucket_count)

        def has_room(number: int) -> bool:
            bucket = TableBucket(self._table.table_id, number, partition_id)
            return self._writers.queue(bucket).takes(part.lane, part.rows)

        return turns.choose(has_room)

    def _noticed(self, fault: HeadwaterError, place: Place) -> None:
        if isinstance(fault, PartitionMissingError) and place[0] is not None:
            self._partitions.forget(place[0])
