"""The event loop: uvloop where it is installed, asyncio's own elsewhere."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec

GC_ALLOCATIONS = 20_000


def run(work: Coroutine[object, object, None]) -> None:
    """Run a coroutine to its end on the fastest loop there is."""
    # What is loaded by now stays, and request objects die young: rare collections are enough.
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 50, 50)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory
