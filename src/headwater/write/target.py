"""A table that is written to: where its rows go, and what all writers of a client share.

Missing partitions are made on the way.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.cluster.paths import wire_path
from headwater.model import TableBucket, TableInfo
from headwater.model.path import spec_of_name
from headwater.wire import fluss_pb2 as pb
from headwater.write.batches import BucketTurns, Lane, PlacedRows, WritePiece
from headwater.write.receipts import UNKNOWN_OFFSET, Delivery, PlaceKey
from headwater.write.send import BucketQueue, Courier, WriteRoom
from headwater.write.work import WriterIds, WriteWork

# What all writers of a client share: the writer id, the queues of buckets, and room.


class WriteContext:
    """Write batches to buckets: idempotently, in order, within the limits of the client."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.work = WriteWork(cluster.clock)
        self.ids = WriterIds(cluster)
        self.courier = Courier(cluster, self.work.tasks)
        self._room = WriteRoom(cluster.settings.pending_bytes_max)
        self._queues: dict[TableBucket, BucketQueue] = {}

    def queue(self, bucket: TableBucket) -> BucketQueue:
        """Return the queue of a bucket; from any thread."""
        queue = self._queues.get(bucket)
        if queue is None:
            made = BucketQueue(
                bucket,
                self.cluster,
                courier=self.courier,
                room=self._room,
                ids=self.ids,
                work=self.work,
            )
            # Queues stay: a number must not be used twice under one writer id.
            queue = self._queues.setdefault(bucket, made)
        return queue

    async def submit(self, bucket: TableBucket, lane: Lane, piece: WritePiece) -> None:
        """Queue rows for a bucket, waiting while too many bytes are on their way."""
        self._refuse_if_closed()
        await self._room.take(piece.rows.size_bytes)
        try:
            self._refuse_if_closed()
            self.queue(bucket).add(lane, piece)
        except BaseException:
            self._room.give(piece.rows.size_bytes)
            raise
        piece.delivery.submitted(piece.rows.count)

    async def close(self) -> None:
        """Take nothing more, and wait until everything was written or has failed."""
        await self.work.hurry()
        for queue in tuple(self._queues.values()):
            await queue.until_returned()
        await self.work.finish()

    def _refuse_if_closed(self) -> None:
        if self.work.is_closed:
            raise errors.ClosedError("The client is closed, so it cannot write.")


# The partitions that rows go to, made where they are missing.

MADE_TOGETHER_MAX = 64


class WritePartitions:
    """Find the ids of a table's partitions."""

    def __init__(self, cluster: Cluster, table: TableInfo) -> None:
        self._cluster = cluster
        self._table = table
        self._making = asyncio.Lock()

    async def find(self, name: str) -> int | None:
        """Return the id of a partition, or None if there is no such partition."""
        with suppress(errors.PartitionMissingError):
            return await self._cluster.partition_id(self._table, name)
        return None

    async def prepare(self, names: Collection[str]) -> None:
        """Make those partitions that are missing, if the settings allow it, many at a time.

        What cannot be made is told to whoever needs it, by `ensure`.
        """
        unknown = [each for each in names if not self._cluster.knows_partition(self._table, each)]
        if not unknown or not self._cluster.settings.creates_partitions:
            return
        with suppress(errors.HeadwaterError):
            async with self._making:
                held = await self._cluster.partitions(self._table)
                missing = [name for name in unknown if name not in held]
                for start in range(0, len(missing), MADE_TOGETHER_MAX):
                    some = missing[start : start + MADE_TOGETHER_MAX]
                    await asyncio.gather(*map(self._create, some), return_exceptions=True)
                if missing:
                    await self._cluster.partitions(self._table)

    async def ensure(self, name: str) -> int:
        """Return the id of a partition, which is created if the settings allow it."""
        try:
            return await self._cluster.partition_id(self._table, name)
        except errors.PartitionMissingError:
            if not self._cluster.settings.creates_partitions:
                raise
        async with self._making:
            return await self._make(name)

    def forget(self, name: str) -> None:
        """Ask for a partition again: the one that was known is gone."""
        self._cluster.forget_partition(self._table, name)

    async def _make(self, name: str) -> int:
        await self._create(name)
        return await self._cluster.retries.run(
            lambda: self._appeared(name), what=f"Creating partition {name} of {self._table.path}"
        )

    async def _create(self, name: str) -> None:
        spec = spec_of_name(name, self._table.descriptor.partition_keys)
        request = pb.CreatePartitionRequest(
            table_path=wire_path(self._table.path),
            partition_spec=pb.PartitionSpec(
                partition_key_values=[pb.KeyValue(key=key, value=value) for key, value in spec]
            ),
            ignore_if_exists=True,
        )
        with suppress(errors.PartitionExistsError):  # Another client was quicker.
            await self._cluster.ask(request, pb.CreatePartitionResponse, coordinator=True)

    async def _appeared(self, name: str) -> int:
        known = await self.find(name)
        if known is None:
            # Servers hear of a new partition one after the other.
            raise errors.LeaderMissingError(
                f"{self._table.path} does not show partition {name} yet."
            )
        return known


# A table that is written to: where its rows go, and what becomes of those of one call.


class Target:
    """Queue rows for the partitions and buckets of one table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: WriteContext) -> None:
        self._table = table
        self._writers = writers
        self._partitions = WritePartitions(cluster, table)
        self._turns: dict[str | None, BucketTurns] = {}
        writers.ids.know(table.table_id, table.path)

    def delivery(self) -> Delivery:
        """Begin a call."""
        return Delivery(self._noticed)

    async def submit(self, parts: Sequence[PlacedRows], delivery: Delivery) -> None:
        """Queue the rows of a batch; each part succeeds or fails on its own."""
        named = {part.partition for part in parts if part.makes_partition}
        await self._partitions.prepare([name for name in named if name is not None])
        for part in parts:
            try:
                await self._submit(part, delivery)
            except errors.HeadwaterError as fault:
                delivery.refused(part.rows.count, fault)

    async def _submit(self, part: PlacedRows, delivery: Delivery) -> None:
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
        piece = WritePiece(part.rows, delivery, (part.partition, number))
        await self._writers.submit(bucket, part.lane, piece)

    async def _partition_id(self, part: PlacedRows, name: str) -> int | None:
        if part.makes_partition:
            return await self._partitions.ensure(name)
        return await self._partitions.find(name)

    def _bucket(self, part: PlacedRows, partition_id: int | None) -> int:
        turns = self._turns.get(part.partition)
        if turns is None:
            turns = self._turns[part.partition] = BucketTurns(self._table.bucket_count)

        def has_room(number: int) -> bool:
            bucket = TableBucket(self._table.table_id, number, partition_id)
            return self._writers.queue(bucket).takes(part.lane, part.rows)

        return turns.choose(has_room)

    def _noticed(self, fault: errors.HeadwaterError, place: PlaceKey) -> None:
        if isinstance(fault, errors.PartitionMissingError) and place[0] is not None:
            self._partitions.forget(place[0])
