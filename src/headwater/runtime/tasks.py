"""Background tasks that are named, watched and stopped together."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

_events = Events("tasks")
T = TypeVar("T")


class Tasks:
    """Own a set of tasks; none outlives `stop()`, and none fails in silence."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Run a coroutine in the background."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, *, within_s: float) -> None:
        """Wait for the tasks that run, and cancel what is not done in time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)
        await self.stop()

    def cancel(self) -> None:
        """Cancel everything without waiting for it."""
        for task in tuple(self._tasks):
            task.cancel()

    async def stop(self) -> None:
        """Cancel everything and wait until it has ended."""
        tasks = tuple(self._tasks)
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (cause := task.exception()) is not None:
            _events.error("task failed", cause=cause, task=task.get_name())


async def shared(work: asyncio.Future[T]) -> T:
    """Wait for work that others wait for as well: whoever is cancelled leaves it to them."""
    # Once nobody waits any more, asyncio would complain at length that nobody heard of a failure.
    work.add_done_callback(_heard)
    return await asyncio.shield(work)


def _heard(work: "asyncio.Future[T]") -> None:
    if not work.cancelled():
        work.exception()


async def to_the_end(work: asyncio.Future[T]) -> T:
    """Wait for work that must not run on alone: whoever is cancelled waits for its end first."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            # One who is cancelled again, as when the server stops meanwhile, still waits.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        if not work.cancelled() and (cause := work.exception()) is not None:
            # Nobody else would look at it, and asyncio would complain of that at length.
            _events.info("failed after it was cancelled", reason=f"{type(cause).__name__}: {cause}")
        raise


async def repeat(
    step: Callable[[], Awaitable[None]], *, every_s: float, clock: Clock, name: str
) -> None:
    """Run a step again and again; a failed one is reported and tried again at the next turn."""
    while True:
        try:
            await step()
        except Exception as cause:  # noqa: BLE001 - the outer edge of a background task
            _events.error("step failed", cause=cause, task=name)
        await clock.sleep(every_s)
