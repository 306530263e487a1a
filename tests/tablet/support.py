"""Logs and executors that a test holds still at will."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future

from headwater.errors import BucketFencedError


class HeldExecutor(Executor):
    """Keep jobs until the test runs them, one at a time."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], object]] = []

    def submit(self, function, /, *arguments, **named):
        future: Future[object] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*arguments, **named))
            except Exception as error:  # noqa: BLE001 - the outer edge of a job
                future.set_exception(error)

        self.jobs.append(run)
        return future

    async def run_next(self) -> None:
        """Run the oldest job in a thread, as an executor would, and let the loop see its end."""
        thread = threading.Thread(target=self.jobs.pop(0))
        thread.start()
        thread.join()
        await settle()


class FakeLog:
    """Be a log that only counts."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.synced_offset = 0
        self.is_checkpoint_due = False
        self.syncs = 0
        self.checkpoints = 0
        self.failure: Exception | None = None
        self.captured: int | None = None

    def sync(self) -> int:
        self.syncs += 1
        if self.failure is not None:
            raise self.failure
        self.synced_offset = self.end_offset if self.captured is None else self.captured
        return self.synced_offset

    def checkpoint(self) -> None:
        self.checkpoints += 1
        self.is_checkpoint_due = False


class ManualClock:
    """Let sleepers go when the test says so."""

    def __init__(self) -> None:
        self.milliseconds = 1_000
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self.milliseconds

    def monotonic(self) -> float:
        return self.milliseconds / 1000

    async def sleep(self, seconds: float) -> None:
        sleeper = asyncio.get_running_loop().create_future()
        self.sleepers.append((seconds, sleeper))
        await sleeper

    async def wake_all(self) -> None:
        sleepers, self.sleepers = self.sleepers, []
        for _, sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
        await settle()


def fenced() -> BucketFencedError:
    return BucketFencedError("The disk failed.")


async def settle() -> None:
    """Let everything that is ready run."""
    ready = asyncio.get_running_loop()
    for _ in range(10):
        turn = ready.create_future()
        ready.call_soon(turn.set_result, None)
        await turn
