"""The event loop: uvloop where it is installed, asyncio's own elsewhere."""

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec


def run(work: Coroutine[object, object, None]) -> None:
    """Run a coroutine to its end on the fastest loop there is."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory
