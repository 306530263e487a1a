"""Rows from several sources at a time, of blocking ones too, with little of them waiting."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing

import pyarrow as pa

from headwater.runtime.aside import aside
from headwater.runtime.tasks import Tasks

BATCHES_WAITING_MAX = 4

Rows = AsyncGenerator[pa.RecordBatch, None]
Source = Callable[[], Rows]


async def pumped(make: Callable[[], Iterator[pa.RecordBatch]]) -> Rows:
    """Yield what an iterator gives that blocks; each step of it is made in a thread."""
    steps = _steps(make)
    try:
        while (batch := await aside(next, steps, None)) is not None:
            yield batch
    finally:
        await aside(steps.close)


def _steps(
    make: Callable[[], Iterator[pa.RecordBatch]],
) -> Generator[pa.RecordBatch, None, None]:
    """Begin with the first step, not before."""
    yield from make()


async def in_turn(sources: Sequence[Source]) -> Rows:
    """Yield the rows of one source after the other."""
    for source in sources:
        async with aclosing(source()) as batches:
            async for batch in batches:
                yield batch


async def side_by_side(sources: Sequence[Source], *, at_once: int) -> Rows:
    """Yield the rows of some sources at a time. Closing it ends all of them."""
    waiting, parts, tasks = deque(sources), _Parts(), Tasks()
    try:
        for number in range(min(at_once, len(waiting))):
            parts.sources += 1
            tasks.start(_work(waiting, parts), name=f"union read {number}")
        while (rows := await parts.next()) is not None:
            yield rows
    finally:
        await tasks.stop()


async def _work(waiting: deque[Source], parts: "_Parts") -> None:
    """Read one source after another while there are any."""
    try:
        while waiting:
            await parts.take(waiting.popleft()())
    except Exception as fault:  # noqa: BLE001 - the outer edge of a task; the caller is told
        await parts.queue.put(fault)
    else:
        await parts.queue.put(None)


class _Parts:
    """Pass rows from several sources to one reader."""

    def __init__(self) -> None:
        self.sources = 0
        self.queue: asyncio.Queue[pa.RecordBatch | Exception | None] = asyncio.Queue(
            BATCHES_WAITING_MAX
        )

    async def take(self, rows: Rows) -> None:
        """Pass all rows of a source on."""
        async with aclosing(rows) as batches:
            async for batch in batches:
                if batch.num_rows:
                    await self.queue.put(batch)

    async def next(self) -> pa.RecordBatch | None:
        """Return more rows, None when all sources have ended, or raise why one failed."""
        while self.sources:
            part = await self.queue.get()
            if part is None:
                self.sources -= 1
                continue
            if isinstance(part, Exception):
                raise part
            return part
        return None
