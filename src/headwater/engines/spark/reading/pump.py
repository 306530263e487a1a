"""Batches that are read ahead on the client's thread, while Spark takes the last ones."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing

import pyarrow as pa

from headwater.runtime.loops import LoopThread
from headwater.runtime.tasks import Tasks

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
