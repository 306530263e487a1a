"""Attempts to write an epoch, each like a process of its own, that can be cut off or held up."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

from headwater.client.table import AsyncTable
from headwater.cluster.cluster import Cluster
from headwater.errors import ClosedError
from headwater.wire.apis import ApiKey
from headwater.write.target import WriteContext

WRITES = (ApiKey.PRODUCE_LOG, ApiKey.PUT_KV)


class Course:
    """Let an attempt do as it likes."""

    def __init__(self):
        self.writes = 0
        self.reads = 0

    async def exchange(self, send, *, is_write):
        self.writes += is_write
        self.reads += not is_write
        return await send()


class Cut(Course):
    """Let some writes pass, then fail everything; the last one may be done all the same."""

    def __init__(self, passing, *, loses_answer):
        super().__init__()
        self._passing = passing
        self._loses_answer = loses_answer
        self._is_over = False

    async def exchange(self, send, *, is_write):
        self.writes += is_write
        if self._is_over or self.writes > self._passing:
            if not self._is_over and self._loses_answer:
                self._is_over = True
                await send()
            self._is_over = True
            raise ClosedError("This attempt was cut off.")
        return await send()


class Pause(Course):
    """Hold an attempt up before one of its writes, until it is told to go on."""

    def __init__(self, passing):
        super().__init__()
        self._passing = passing
        self.is_paused = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def exchange(self, send, *, is_write):
        self.writes += is_write
        if is_write and self.writes == self._passing + 1:
            self.is_paused.set()
            await self.goes_on.wait()
        return await send()


class _Link:
    def __init__(self, link, course):
        self._link = link
        self._course = course

    async def exchange(self, api, parts, *, timeout_s):
        async def send():
            return await self._link.exchange(api, parts, timeout_s=timeout_s)

        return await self._course.exchange(send, is_write=api.key in WRITES)

    @property
    def is_open(self):
        return self._link.is_open


class _Pool:
    def __init__(self, pool, course):
        self._pool = pool
        self._course = course

    @property
    def reached(self):
        return self._pool.reached

    async def link(self, address):
        return _Link(await self._pool.link(address), self._course)


@asynccontextmanager
async def attempting(client, path, course):
    """Give a table that nobody has used yet, as another process would have it."""
    known = client.cluster
    # The server may be on its way up again just then.
    settings = replace(known.settings, waits_for_server=True)
    cluster = Cluster(
        known._bootstrap, _Pool(known._pool, course), settings=settings, clock=known.clock
    )
    writers = WriteContext(cluster)
    # Metadata is no write, so this is never cut off.
    table = AsyncTable(await known.table(path), cluster, writers)
    await cluster.connect()
    await cluster.table(path)
    try:
        yield table
    finally:
        await writers.close()


async def attempt(client, path, rows, *, course=None, **epoch):
    """Write an epoch; None if the attempt was cut off."""
    async with attempting(client, path, course or Course()) as table:
        try:
            return await table.write_epoch(rows, **epoch)
        except ClosedError:
            return None
