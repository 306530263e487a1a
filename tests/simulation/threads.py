"""Threads of the server that can be left in the middle of their work.

A piece of work runs in a real thread, but only one thread runs at any moment: it has the baton.
At an operation of the disk it may give the baton back to the loop, which goes on with other things
and lets it run again later, as the seed says. So appends happen in the middle of syncs.
"""

import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Self

WAIT_S_MAX = 60.0


class AbandonedError(BaseException):
    """End a thread whose process is dead."""


class Strand:
    """One piece of work, and the thread that does it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.result: object = None
        self.fault: Exception | None = None
        self.is_done = False
        self.waits_for: BatonLock | None = None
        self._work = work
        self._is_abandoned = False
        self._may_run = threading.Semaphore(0)
        self._has_stopped = threading.Semaphore(0)
        self._context: Context = copy_context()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def go_on(self) -> None:
        """Let it run until it is done or stops, from the thread of the loop."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._may_run.release()
        assert self._has_stopped.acquire(timeout=WAIT_S_MAX), "a strand did not come back"

    def stop_here(self) -> None:
        """Give the baton back, from the thread itself, and wait for it."""
        self._has_stopped.release()
        self._may_run.acquire()
        if self._is_abandoned:
            raise AbandonedError

    def abandon(self) -> None:
        """End it where it stands."""
        if self._thread.ident is not None and not self.is_done:
            self._is_abandoned = True
            self._may_run.release()
            self._thread.join(WAIT_S_MAX)

    def _run(self) -> None:
        _current.strand = self
        try:
            self.result = self._context.run(self._work)
        except AbandonedError:
            pass
        except Exception as fault:  # noqa: BLE001 - as a pool does
            self.fault = fault
        self.is_done = True
        self._has_stopped.release()


class _Current(threading.local):
    strand: Strand | None = None


_current = _Current()


def current_strand() -> Strand | None:
    """Return the piece of work that this thread does; None in the thread of the loop."""
    return _current.strand


class BatonLock:
    """A lock that can be entered again; whoever waits for it lets its holder run.

    The loop has no rest while it waits for a lock: only the thread that holds it goes on.
    """

    def __init__(self) -> None:
        self.owner: Strand | None = None
        self._depth = 0

    def __enter__(self) -> Self:
        mine = current_strand()
        while self._depth and self.owner is not mine:
            if mine is None:
                self._blocker().go_on()
            else:
                mine.waits_for = self
                mine.stop_here()
        if mine is not None:
            mine.waits_for = None
        self.owner, self._depth = mine, self._depth + 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.owner = None

    def _blocker(self) -> Strand:
        """Return the thread that has to go on first; none, if all wait for the loop."""
        blocker = self.owner
        while blocker is not None and blocker.waits_for is not None:
            blocker = blocker.waits_for.owner
        assert blocker is not None, "the loop and a thread wait for each other"
        return blocker


class Locks:
    """Stand in for the module `threading` where locks are made."""

    RLock = BatonLock
