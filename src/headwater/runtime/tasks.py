"""Background tasks, long work on the event loop, and blocking calls.

Background tasks are named, watched and stopped together. Long work on the event loop yields to
others now and then. Blocking calls run in a thread.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import ParamSpec, TypeVar

from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

_events = Events("tasks")
T = TypeVar("T")


class Tasks:
    """Own a set of tasks; none outlives `stop()`, and none fails silently."""

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
        """Wait for the running tasks, and cancel those that are not done in time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)
        await self.stop()

    def cancel(self) -> None:
        """Cancel everything without waiting."""
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
    """Wait for work that others wait for too: cancelling the caller does not cancel the work."""
    # Once nobody waits any more, asyncio would log that the exception was never retrieved.
    work.add_done_callback(_heard)
    return await asyncio.shield(work)


def _heard(work: "asyncio.Future[T]") -> None:
    if not work.cancelled():
        work.exception()


async def to_the_end(work: asyncio.Future[T]) -> T:
    """Wait for work that must not outlive the caller, who waits for its end even if cancelled."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            # Even if cancelled again, for instance when the server stops, it still waits.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        if not work.cancelled() and (cause := work.exception()) is not None:
            # Nobody else retrieves the exception, and asyncio would log that.
            _events.info("failed after cancellation", reason=f"{type(cause).__name__}: {cause}")
        raise


async def repeat(
    step: Callable[[], Awaitable[None]], *, every_s: float, clock: Clock, name: str
) -> None:
    """Run a step periodically; a failure is logged and the step is tried again next time."""
    while True:
        try:
            await step()
        except Exception as cause:  # noqa: BLE001 - the outer edge of a background task
            _events.error("step failed", cause=cause, task=name)
        await clock.sleep(every_s)


# Blocking calls in a thread, for callers that await.

P = ParamSpec("P")


async def aside(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run a blocking call in a thread; a cancelled caller still waits for its end."""
    return await to_the_end(begun(partial(work, *args, **named)))


def begun(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Start a blocking call in a thread, to be awaited later."""
    return asyncio.get_running_loop().run_in_executor(None, work)


def elsewhere(work: Callable[[], T]) -> T:
    """Run a call in a thread of its own, wait for it, and return its result."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="elsewhere") as threads:
        return threads.submit(work).result()


# Long work on the event loop, a little at a time so that others can run.

ITEMS_PER_TURN = 256
TURN_S_MAX = 0.005
"""Items handled before others may run, and the time after which they may run anyway; an item takes
some ten microseconds, but some take longer.
"""

CALLS_PER_TURN = 16
CALLS_AT_ONCE_MAX = 1024
"""Calls of one request that start in one turn, and that run at the same time."""


def in_turns(items: Iterable[T], *, per_turn: int = ITEMS_PER_TURN) -> AsyncIterator[T]:
    """Yield items, and now and then let other tasks run first."""
    return _InTurns(items, per_turn)


async def let_others_run() -> None:
    """Let all others run that can, also those whose requests are just arriving."""
    # Twice: what arrives now is read in the next turn of the loop, behind what was planned for it.
    await asyncio.sleep(0)
    await asyncio.sleep(0)


class _InTurns(AsyncIterator[T]):
    """Not an async generator: asyncio tracks those, which costs more than a short list."""

    __slots__ = ("_began", "_count", "_items", "_per_turn", "_time")

    def __init__(self, items: Iterable[T], per_turn: int) -> None:
        self._items = iter(items)
        self._per_turn = per_turn
        self._time = asyncio.get_running_loop().time
        self._began, self._count = self._time(), 0

    async def __anext__(self) -> T:
        for item in self._items:
            # Before an item rather than after it, so that a short list never yields.
            if self._count >= self._per_turn or (
                self._count and self._time() - self._began > TURN_S_MAX
            ):
                await let_others_run()
                self._began, self._count = self._time(), 0
            self._count += 1
            return item
        raise StopAsyncIteration


async def gathered(
    calls: Iterable[Coroutine[object, object, T]], *, per_turn: int = CALLS_PER_TURN
) -> list[T]:
    """Run calls concurrently, a limited number at a time, and return their results in order."""
    waiting, answers = iter(calls), list[T]()
    while first := next(waiting, None):
        some = chain((first,), islice(waiting, CALLS_AT_ONCE_MAX - 1))
        answers += await _all_of(some, per_turn=per_turn)
    return answers


async def _all_of(calls: Iterable[Coroutine[object, object, T]], *, per_turn: int) -> Iterable[T]:
    tasks: list[asyncio.Task[T]] = []
    async with asyncio.TaskGroup() as group:
        for call in calls:
            tasks.append(group.create_task(call))
            # Behind a call, not before one: a call that is dropped was never awaited.
            if len(tasks) % per_turn == 0:
                await let_others_run()
    return [task.result() for task in tasks]
