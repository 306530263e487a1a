"""Calls that block, made in a thread, for those who await."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from headwater.runtime.tasks import to_the_end

P = ParamSpec("P")
T = TypeVar("T")


async def aside(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run a call in a thread; whoever is cancelled waits for its end, since it cannot be cut."""
    return await to_the_end(begun(partial(work, *args, **named)))


def begun(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Begin a call in a thread, and let the caller wait for it later."""
    return asyncio.get_running_loop().run_in_executor(None, work)
