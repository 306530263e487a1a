"""What all writers of a client share: the writer id, the queues of buckets, and room."""

import asyncio
from collections.abc import Coroutine

from headwater.client.cluster import Cluster
from headwater.client.paths import wire_path
from headwater.client.writing.batches import Lane, Piece
from headwater.client.writing.bucket_queue import BucketQueue
from headwater.client.writing.courier import Courier
from headwater.client.writing.room import Room
from headwater.errors import ClosedError
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.runtime.tasks import Tasks
from headwater.wire import fluss_pb2 as pb


class Writers:
    """Write batches to buckets: idempotently, in order, within the limits of the client."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.room = Room(cluster.settings.pending_bytes_max)
        self._tasks = Tasks()
        self.courier = Courier(cluster, self._tasks)
        self._working: set[asyncio.Task[None]] = set()
        self._gathering: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._queues: dict[TableBucket, BucketQueue] = {}
        self._paths: dict[int, TablePath] = {}
        self.plain_bytes_max = 0  # so many bytes need no compression, as far as the server says
        self._writer_id: int | None = None
        self._asking = asyncio.Lock()
        self._is_closed = False

    def know(self, table_id: int, path: TablePath) -> None:
        """Take note of the name of a table, which a server wants to hear for a writer id."""
        self._paths[table_id] = path

    def queue(self, bucket: TableBucket) -> BucketQueue:
        """Return the queue of a bucket."""
        queue = self._queues.get(bucket)
        if queue is None:
            # Queues stay: a number must not be used twice under one writer id.
            queue = self._queues[bucket] = BucketQueue(bucket, self)
        return queue

    async def submit(self, bucket: TableBucket, lane: Lane, piece: Piece) -> None:
        """Queue rows for a bucket, waiting while too many bytes are on their way."""
        self._refuse_if_closed()
        await self.room.take(piece.rows.size_bytes)
        try:
            self._refuse_if_closed()
            self.queue(bucket).add(lane, piece)
        except BaseException:
            self.room.give(piece.rows.size_bytes)
            raise
        piece.delivery.submitted(piece.rows.count)

    async def writer_id(self, bucket: TableBucket, *, used: int | None) -> int:
        """Return the writer id of the client, or a new one if a bucket has used that up."""
        async with self._asking:
            if self._writer_id is None or self._writer_id == used:
                paths = [self._paths[bucket.table_id]] if bucket.table_id in self._paths else []
                answer = await self.cluster.ask(
                    pb.InitWriterRequest(table_path=map(wire_path, paths)), pb.InitWriterResponse
                )
                self._writer_id = answer.writer_id
                self.plain_bytes_max = answer.plain_bytes_max
            return self._writer_id

    def start(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Run a coroutine in the background; closing waits for it."""
        task = self._tasks.start(work, name=name)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    def gather(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Run a coroutine that sends rows which are held back; closing hurries it."""
        task = self.start(work, name=name)
        self._gathering.add(task)
        task.add_done_callback(self._gathering.discard)
        return task

    async def linger(self, seconds: float) -> None:
        """Wait for a while, or until the client is being closed."""
        waiting = [
            self._tasks.start(self.cluster.clock.sleep(seconds), name="linger"),
            self._tasks.start(self._closed(), name="linger until closed"),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def _closed(self) -> None:
        await self._closing.wait()

    async def close(self) -> None:
        """Take nothing more, and wait until everything was written or has failed."""
        self._closing.set()
        while self._gathering:
            await asyncio.wait(tuple(self._gathering))
        self._is_closed = True
        while self._working:
            await asyncio.wait(tuple(self._working))
        await self._tasks.stop()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise ClosedError("The client was closed, so it writes no more.")
