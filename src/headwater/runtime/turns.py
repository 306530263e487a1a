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


async def in_turns(items: Iterable[T], *, per_turn: int = ITEMS_PER_TURN) -> AsyncIterator[T]:
    """Yield items, and now and again let whatever else is ready run first."""
    loop = asyncio.get_running_loop()
    began, count = loop.time(), 0
    for item in items:
        # Before the next item rather than after the last: nobody waits for the end of a short list.
        if count >= per_turn or (count and loop.time() - began > TURN_S_MAX):
            await asyncio.sleep(0)
            began, count = loop.time(), 0
        yield item
        count += 1


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
