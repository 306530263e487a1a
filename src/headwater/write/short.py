"""The short way for few rows: written from the caller's own thread, as one batch for one bucket.

The rows are encoded, take the next number of their bucket, and are sent and answered without a
task: by the server of this process, or over a connection of the caller's own. Whatever is unusual
is left to the long way, before anything is sent: rows that are not plain, rows of several buckets,
a bucket whose queue is in use, a writer id or a leader that is not known yet.

A batch whose send fails, or whose outcome is unknown, is handed to the queue of its bucket as one
that was sent under its number. So it is sent again, refused or given up by the same rules as any
other, and never written twice.
"""

from collections.abc import Coroutine, Sequence
from typing import Protocol, TypeVar

from headwater.errors import DisconnectedError, HeadwaterError, PartitionMissingError
from headwater.model import TableBucket, TableInfo
from headwater.wire.messages import Part
from headwater.wire.write import BucketRecords
from headwater.write.batches import Answer, Lane, WriteBatch, WritePiece
from headwater.write.plan import FewPlanner, FewRows
from headwater.write.receipts import BucketReceipt, Delivery, PlaceKey, Receipt
from headwater.write.send import SERVER_SHARE, BucketQueue, Lent, left_out
from headwater.write.target import WriteContext

T = TypeVar("T")


class Caller(Protocol):
    """Run coroutines for a caller that does not await."""

    @property
    def is_usable(self) -> bool:
        """Tell whether this thread may have work run now."""
        ...

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine to its end and return what it returns."""
        ...

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Begin a coroutine without waiting for it."""
        ...


class ShortWriter:
    """Write few rows of one table from the threads of callers that do not await."""

    def __init__(
        self, table: TableInfo, planner: FewPlanner, *, writers: WriteContext, caller: Caller
    ) -> None:
        self._table = table
        self._planner = planner
        self._writers = writers
        self._cluster = writers.cluster
        self._caller = caller
        self._queues: dict[TableBucket, BucketQueue] = {}

    def write(self, rows: object) -> Receipt | None:
        """Write rows and wait until they are acknowledged; None leaves them to the long way.

        1. encode, and find the bucket  2. borrow the bucket's next number  3. send, and wait
        4. give the number back, with what became of the batch
        """
        few = self._planner.few(rows) if self._caller.is_usable else None
        queue = None if few is None else self._queue(few)
        if few is None or queue is None:
            return None
        deadline = self._cluster.clock.monotonic() + self._cluster.settings.deadline_s
        try:
            return self._written(few, queue, deadline)
        except BaseException:
            # Whoever was interrupted wants no more of it, but the number may be lent or used.
            self._caller.start(self._given_up(few, queue, deadline))
            raise

    def _written(self, few: FewRows, queue: BucketQueue, deadline: float) -> Receipt | None:
        lent = queue.lend(few)
        if lent is None:
            return None
        answer = self._sent(few, queue.bucket, lent)
        if answer is None:
            queue.lent_unused()
            return None
        if answer.fault is not None:
            return self._caller.run(self._failed(few, queue, answer.fault, deadline))
        queue.lent_written()
        end = few.lane.end_offset(answer.offset, few.count)
        return Receipt(few.count, (BucketReceipt(few.partition, few.bucket, few.count, end),))

    def _queue(self, few: FewRows) -> BucketQueue | None:
        """Return the queue of the rows' bucket, None if their partition is not known."""
        partition_id = None
        if few.partition is not None:
            partition_id = self._cluster.known_partition(self._table, few.partition)
            if partition_id is None:
                return None
        bucket = TableBucket(self._table.table_id, few.bucket, partition_id)
        queue = self._queues.get(bucket)
        if queue is None:
            queue = self._queues.setdefault(bucket, self._writers.queue(bucket))
        return queue

    def _sent(self, few: FewRows, bucket: TableBucket, lent: Lent) -> Answer | None:
        """Send a batch and return the answer for it, None if it was not sent."""
        settings, direct = self._cluster.settings, self._cluster.writes
        timeout_s = min(settings.request_timeout_s, settings.deadline_s)
        timeout_ms = max(int(timeout_s * SERVER_SHARE * 1000), 1)
        records = few.payload.records(writer_id=lent.writer_id, sequence=lent.sequence)
        batch = (BucketRecords(bucket.bucket, records, bucket.partition_id),)
        if direct is None:
            request = few.lane.request(batch, acks=settings.acks, timeout_ms=timeout_ms)
            return self._exchanged(few.lane, bucket, request, timeout_s)
        asked = few.lane.request_of(batch, acks=settings.acks, timeout_ms=timeout_ms)
        return Answer(*direct.write(asked, timeout_s=timeout_s))

    def _exchanged(
        self, lane: Lane, bucket: TableBucket, request: Sequence[Part], timeout_s: float
    ) -> Answer | None:
        """Send a request over a connection of the caller's own, if there is one at hand."""
        blocking, address = self._cluster.blocking, self._cluster.leader_address(bucket)
        if blocking is None or address is None:
            return None
        try:
            body = blocking.exchange(address, lane.api, request, timeout_s=timeout_s)
        except HeadwaterError as fault:
            return Answer(-1, fault)
        if body is None:
            return None
        answers = lane.answers(body)
        return answers.get((bucket.partition_id, bucket.bucket)) or left_out(bucket)

    async def _failed(
        self, few: FewRows, queue: BucketQueue, fault: HeadwaterError, deadline: float
    ) -> Receipt:
        """Hand a batch over to the queue, and wait for what becomes of it there."""
        delivery, batch = self._batch(few)
        queue.lent_failed(batch, fault, deadline=deadline)
        return await delivery.receipt()

    async def _given_up(self, few: FewRows, queue: BucketQueue, deadline: float) -> None:
        """Hand a batch over whose sender was interrupted, unless it is settled already."""
        unknown = DisconnectedError("The caller was interrupted while it waited for the answer.")
        _, batch = self._batch(few)
        queue.reclaim(few, batch, unknown, deadline=deadline)

    def _batch(self, few: FewRows) -> tuple[Delivery, WriteBatch]:
        """Return few rows as a batch that was encoded, and what tells what becomes of them."""
        delivery = Delivery(self._noticed)
        piece = WritePiece(few.rows(), delivery, (few.partition, few.bucket))
        delivery.submitted(few.count)
        return delivery, WriteBatch(few.lane, [piece], payload=few.payload)

    def _noticed(self, fault: HeadwaterError, place: PlaceKey) -> None:
        if isinstance(fault, PartitionMissingError) and place[0] is not None:
            self._cluster.forget_partition(self._table, place[0])
