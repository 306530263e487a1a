"""What all queues of a client share: its writer id, and the work that runs in the background."""

import asyncio
from collections.abc import Coroutine

from headwater.cluster.cluster import Cluster
from headwater.cluster.paths import wire_path
from headwater.model import TableBucket, TablePath
from headwater.runtime.clock import Clock
from headwater.runtime.tasks import Tasks
from headwater.wire import fluss_pb2 as pb


class WriterIds:
    """Ask for writer ids: one for all buckets of a client, and another once one is used up."""

    def __init__(self, cluster: Cluster) -> None:
        self.plain_bytes_max = 0
        """So many bytes need no compression, as far as the server says."""
        self._cluster = cluster
        self._paths: dict[int, TablePath] = {}
        self._writer_id: int | None = None
        self._asking = asyncio.Lock()

    def know(self, table_id: int, path: TablePath) -> None:
        """Take note of the name of a table, which a server wants to hear for a writer id."""
        self._paths[table_id] = path

    async def get(self, bucket: TableBucket, *, used: int | None) -> int:
        """Return the writer id of the client, or a new one if a bucket has used that up."""
        async with self._asking:
            if self._writer_id is None or self._writer_id == used:
                paths = [self._paths[bucket.table_id]] if bucket.table_id in self._paths else []
                answer = await self._cluster.ask(
                    pb.InitWriterRequest(table_path=map(wire_path, paths)), pb.InitWriterResponse
                )
                self._writer_id = answer.writer_id
                self.plain_bytes_max = answer.plain_bytes_max
            return self._writer_id


class WriteWork:
    """Run what writes in the background; closing hurries some of it, and waits for all."""

    def __init__(self, clock: Clock) -> None:
        self.tasks = Tasks()
        self.is_closed = False
        """Nothing more is taken."""
        self._clock = clock
        self._working: set[asyncio.Task[None]] = set()
        self._gathering: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    def start(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Run a coroutine in the background; closing waits for it."""
        task = self.tasks.start(work, name=name)
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
            self.tasks.start(self._clock.sleep(seconds), name="linger"),
            self.tasks.start(self._closed(), name="linger until closed"),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def _closed(self) -> None:
        await self._closing.wait()

    async def hurry(self) -> None:
        """Have what is held back sent, then take nothing more."""
        self._closing.set()
        while self._gathering:
            await asyncio.wait(tuple(self._gathering))
        self.is_closed = True

    async def finish(self) -> None:
        """Wait until everything was written or has failed."""
        while self._working:
            await asyncio.wait(tuple(self._working))
        await self.tasks.stop()
