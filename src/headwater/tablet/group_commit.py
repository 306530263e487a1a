"""One sync for every append that waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Protocol

from headwater.errors import BucketFencedError, HeadwaterError, RetryLaterError
from headwater.metrics.tallies import WriteTally
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.tasks import Tasks

FLUSH_DELAY_MS = 20
RETRY_DELAY_S = 0.1
_events = Events("group_commit")

Answered = Callable[[HeadwaterError | None], None]
"""Is told once that rows are durable, or why they are not."""


class Syncable(Protocol):
    """Be a log, as far as committing it goes."""

    @property
    def end_offset(self) -> int:
        """Return the offset after everything written."""
        ...

    @property
    def synced_offset(self) -> int:
        """Return the offset before which everything is durable."""
        ...

    @property
    def is_checkpoint_due(self) -> bool:
        """Tell whether a checkpoint should follow the sync."""
        ...

    def sync(self) -> int:
        """Make everything written durable."""
        ...

    def checkpoint(self) -> None:
        """Note what is durable."""
        ...


class GroupCommit:
    """Sync a log off the loop, at most one sync at a time.

    What is written while a sync runs waits for the next one, which starts as soon as the first
    has ended. `on_synced` runs in the loop after each sync.
    """

    def __init__(
        self,
        log: Syncable,
        executor: Executor,
        *,
        clock: Clock,
        on_synced: Callable[[], None] = lambda: None,
        tally: WriteTally | None = None,
        flush_delay_ms: int = FLUSH_DELAY_MS,
    ) -> None:
        self._log = log
        self._executor = executor
        self._clock = clock
        self._on_synced = on_synced
        self._tally = tally or WriteTally()
        self._flush_delay_ms = flush_delay_ms
        self._tasks = Tasks()
        self._waiters: list[tuple[int, Answered]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_flush_planned = False
        self._is_flush_due = False
        self._is_closed = False
        self._failure = ""

    @property
    def waiting_count(self) -> int:
        """Return how many wait for a sync."""
        return len(self._waiters)

    @property
    def has_failed(self) -> bool:
        """Tell whether a sync failed, after which there is no other."""
        return bool(self._failure)

    async def durable(self, end_offset: int) -> None:
        """Wait until everything before an offset survives a crash."""
        if self._log.synced_offset >= end_offset:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_durable(end_offset, partial(settle, waiter))
        await waiter

    def when_durable(self, end_offset: int, answered: Answered) -> None:
        """Call back, in the loop, once everything before an offset survives a crash."""
        if self._log.synced_offset >= end_offset:
            answered(None)
        elif self._failure:
            hint = "Check the disk, then restart the server."
            answered(BucketFencedError(self._failure, hint=hint))
        else:
            self._waiters.append((end_offset, answered))
            self._start()

    def request(self, *, at_once: bool = False) -> None:
        """Have a sync soon, or as soon as may be, without waiting for it."""
        if self._is_closed or self._failure:
            return
        if at_once:
            self._is_flush_due = True
            self._start()
        elif not self._is_flush_planned:
            self._is_flush_planned = True
            self._tasks.start(self._flush_later(), name="flush")

    async def close(self) -> None:
        """Wait for the sync that runs and plan no other."""
        self._is_closed = True
        await self._tasks.stop()
        while not self._idle.is_set():
            await self._idle.wait()

    async def _flush_later(self) -> None:
        await self._clock.sleep(self._flush_delay_ms / 1000)
        self._is_flush_planned = False
        if self._log.synced_offset < self._log.end_offset:
            self._is_flush_due = True
            self._start()

    def _start(self) -> None:
        """Start a sync, unless one runs: its end starts the next where that is wanted."""
        if not self._idle.is_set() or self._failure:
            return
        self._executor.submit(self._run, asyncio.get_running_loop())
        self._idle.clear()
        self._is_flush_due = False

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the work in a thread: sync, tell the loop, then write a checkpoint if one is due."""
        failure, began = "", self._clock.monotonic()
        took_s: float | None = None
        try:
            self._log.sync()
            took_s = self._clock.monotonic() - began
            if self._log.is_checkpoint_due:
                loop.call_soon_threadsafe(self._wake)
                self._log.checkpoint()
        except RetryLaterError as error:
            # Nothing is lost: whoever waits goes on waiting, and the next try comes soon.
            _events.warning("sync put off", reason=str(error))
            loop.call_soon_threadsafe(self._put_off)
            return
        except HeadwaterError as error:
            failure = error.message
        except Exception as error:  # noqa: BLE001 - the outer edge of a background job
            _events.error("sync failed", cause=error)
            failure = f"A sync failed with {error!r}."
        loop.call_soon_threadsafe(self._finish, failure, took_s)

    def _put_off(self) -> None:
        self._idle.set()
        if self._is_closed:
            self._failure = "The last sync could not be done before the log was closed."
            self._wake()
        else:
            self._tasks.start(self._try_again(), name="sync again")

    async def _try_again(self) -> None:
        await self._clock.sleep(RETRY_DELAY_S)
        self._start()

    def _finish(self, failure: str, took_s: float | None) -> None:
        if took_s is None:
            self._tally.sync_failures += 1
        else:
            self._tally.syncs.add(took_s)
        self._failure = self._failure or failure
        self._idle.set()
        self._wake()
        if self._waiters or self._is_flush_due:
            self._start()

    def _wake(self) -> None:
        """Answer everybody whose offset is durable, or all if the log failed."""
        synced_offset = self._log.synced_offset
        waiting, self._waiters = self._waiters, []
        for end_offset, answered in waiting:
            if end_offset <= synced_offset:
                answered(None)
            elif self._failure:
                answered(BucketFencedError(self._failure))
            else:
                self._waiters.append((end_offset, answered))
        self._on_synced()


def settle(waiter: "asyncio.Future[None]", fault: HeadwaterError | None) -> None:
    """Answer whoever awaits a future, unless they are gone."""
    if waiter.done():
        return
    if fault is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(fault)
