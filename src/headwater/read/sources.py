"""Rows from several sources: side by side or in turn, joined to large batches, up to a limit.

Blocking sources are read in threads. Few batches wait between the sources and whoever takes them.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing

import pyarrow as pa

from headwater.runtime.tasks import Tasks, aside

BATCHES_WAITING_MAX = 4

Rows = AsyncGenerator[pa.RecordBatch, None]
Source = Callable[[], Rows]


async def pumped(make: Callable[[], Iterator[pa.RecordBatch]]) -> Rows:
    """Yield what a blocking iterator gives; each of its steps runs in a thread."""
    steps = _steps(make)
    try:
        while (batch := await aside(next, steps, None)) is not None:
            yield batch
    finally:
        await aside(steps.close)


def _steps(
    make: Callable[[], Iterator[pa.RecordBatch]],
) -> Generator[pa.RecordBatch, None, None]:
    """Make the iterator when the first batch is asked for, not before."""
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
            tasks.start(_work(waiting, parts), name=f"read {number}")
        while (rows := await parts.next()) is not None:
            yield rows
    finally:
        await tasks.stop()


async def up_to(rows: Rows, limit: int | None) -> Rows:
    """Yield no more rows than a limit allows, and no empty batches; closes the source."""
    left = limit
    async with aclosing(rows):
        async for batch in rows:
            part = batch if left is None else batch.slice(0, left)
            left = None if left is None else left - part.num_rows
            if part.num_rows:
                yield part
            if left == 0:
                return


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


# Large batches are made of small ones, as taking a batch costs the same however few rows it has.

ROWS_WANTED = 65_536
# A batch of this size is not copied to join it with others.
ROWS_ENOUGH = 16_384
BYTES_ENOUGH = 1024 * 1024
BYTES_MAX = 16 * 1024 * 1024


async def gathered(batches: AsyncIterator[pa.RecordBatch]) -> Rows:
    """Yield the rows in batches that are neither small nor huge, but for the last."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    async for batch in batches:
        if not batch.num_rows:
            continue
        is_enough = batch.num_rows >= ROWS_ENOUGH and batch.nbytes >= BYTES_ENOUGH
        if waiting and is_enough:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if is_enough or rows >= ROWS_WANTED or size >= BYTES_MAX:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
