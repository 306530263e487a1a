"""The event loop: uvloop where it is installed, otherwise asyncio's own."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from importlib import import_module
from importlib.util import find_spec
from typing import TypeVar

from headwater.errors import ClosedError

GC_ALLOCATIONS = 20_000
T = TypeVar("T")


def run(work: Coroutine[object, object, None]) -> None:
    """Run a coroutine to completion on the fastest loop available."""
    # Request objects die young: rare collections are enough.
    gc.set_threshold(GC_ALLOCATIONS, 50, 50)
    keep_from_collections()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def keep_from_collections() -> None:
    """Exclude everything that exists now from garbage collections: it is here to stay.

    A collection holds up the loop, 20 ms for each 50,000 to 100,000 objects.
    """
    gc.freeze()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


class LoopThread:
    """An event loop in a thread of its own, for callers that do not await."""

    def __init__(self, name: str) -> None:
        factory = _loop_factory() or asyncio.new_event_loop
        self._loop = factory()
        self._process = os.getpid()
        # A daemon thread, so that a program that forgets to close still exits.
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Tell whether the loop still accepts work."""
        return not self._loop.is_closed()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine to completion and return its result."""
        if fault := self._fault():
            work.close()
            raise ClosedError(fault, hint="Open or connect again.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ClosedError("The client was closed in the meantime.") from None
        except BaseException:  # A caller that was interrupted no longer wants the result.
            future.cancel()
            raise

    @property
    def is_usable(self) -> bool:
        """Tell whether this thread may have work run now."""
        return not self._fault()

    def check(self) -> None:
        """Refuse what `run` would refuse, for work that is done without the loop."""
        if fault := self._fault():
            raise ClosedError(fault, hint="Open or connect again.")

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Start a coroutine without waiting for it; from any thread, even the loop's own."""
        if self._loop.is_closed() or os.getpid() != self._process:
            work.close()
        else:
            asyncio.run_coroutine_threadsafe(work, self._loop)

    def _fault(self) -> str:
        if self._loop.is_closed():
            return "The client is closed."
        if os.getpid() != self._process:
            return "A client does not survive a fork: the child process has none of its threads."
        if threading.current_thread() is self._thread:
            return "A blocking call was made on the client's own thread."
        return ""

    def close(self) -> None:
        """Stop the thread; work that still runs is cancelled."""
        if self._loop.is_closed() or os.getpid() != self._process:
            return
        # On its own thread, since the caller's thread may already run a loop, as in notebooks.
        asyncio.run_coroutine_threadsafe(_wind_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _wind_up() -> None:
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
