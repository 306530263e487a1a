"""Long work on the event loop, done a little at a time so that everybody else has a turn."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

ITEMS_PER_TURN = 256
TURN_S_MAX = 0.005
"""Items that are handled before others have their turn, and the time after which they have it
anyway; an item takes some ten microseconds, but some take longer."""

CALLS_PER_TURN = 16
CALLS_AT_ONCE_MAX = 1024
"""Calls of one request that begin in one turn, and that are under way at a time."""


def in_turns(items: Iterable[T], *, per_turn: int = ITEMS_PER_TURN) -> AsyncIterator[T]:
    """Yield items, and now and again let whatever else is ready run first."""
    return _InTurns(items, per_turn)


class _InTurns(AsyncIterator[T]):
    """Not an async generator: asyncio keeps track of those, which costs more than a short list."""

    __slots__ = ("_began", "_count", "_items", "_per_turn", "_time")

    def __init__(self, items: Iterable[T], per_turn: int) -> None:
        self._items = iter(items)
        self._per_turn = per_turn
        self._time = asyncio.get_running_loop().time
        self._began, self._count = self._time(), 0

    async def __anext__(self) -> T:
        for item in self._items:
            # Before an item rather than after it: nobody waits for the end of a short list.
            if self._count >= self._per_turn or (
                self._count and self._time() - self._began > TURN_S_MAX
            ):
                await asyncio.sleep(0)
                self._began, self._count = self._time(), 0
            self._count += 1
            return item
        raise StopAsyncIteration


async def gathered(calls: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Run calls beside each other, not all at once, and return what they do, in their order."""
    waiting, answers = iter(calls), list[T]()
    while first := next(waiting, None):
        tasks: list[asyncio.Task[T]] = []
        async with asyncio.TaskGroup() as group:
            tasks.append(group.create_task(first))
            others = islice(waiting, CALLS_AT_ONCE_MAX - 1)
            tasks += [
                group.create_task(call) async for call in in_turns(others, per_turn=CALLS_PER_TURN)
            ]
        answers += [task.result() for task in tasks]
    return answers
