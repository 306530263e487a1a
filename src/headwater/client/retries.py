"""Trying again: how long to wait between attempts, and when to give up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headwater.config.client import ClientSettings
from headwater.errors import HeadwaterError, TimedOutError
from headwater.runtime.clock import Clock
from headwater.runtime.ids import random_fraction

T = TypeVar("T")
_DOUBLINGS_MAX = 32


class Retries:
    """Repeat what may succeed later, until it does or time is up."""

    def __init__(self, settings: ClientSettings, clock: Clock) -> None:
        self._settings = settings
        self.clock = clock

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        what: str,
        timeout_s: float | None = None,
        hopeless: tuple[type[HeadwaterError], ...] = (),
    ) -> T:
        """Return what an attempt returns; retriable errors are tried again until the deadline.

        Those that are `hopeless` are raised at once, though another attempt could succeed.
        """
        timeout_s = self._settings.deadline_s if timeout_s is None else timeout_s
        deadline = self.clock.monotonic() + timeout_s
        failures, fault = 0, None
        while True:
            try:
                async with asyncio.timeout(max(deadline - self.clock.monotonic(), 0.0)):
                    return await attempt()
            except TimeoutError:
                raise _too_late(what, timeout_s, fault) from fault
            except HeadwaterError as failed:
                if not failed.retriable or isinstance(failed, hopeless):
                    raise
                fault = failed
            failures += 1
            pause_s = self.backoff_s(failures)
            if self.clock.monotonic() + pause_s >= deadline:
                raise _too_late(what, timeout_s, fault) from fault
            await self.clock.sleep(pause_s)

    def backoff_s(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row; no two clients agree."""
        doubled = self._settings.backoff_first_s * 2 ** min(failures - 1, _DOUBLINGS_MAX)
        return min(doubled, self._settings.backoff_max_s) * (0.5 + random_fraction() / 2)


def _too_late(what: str, timeout_s: float, fault: HeadwaterError | None) -> TimedOutError:
    last = "" if fault is None else f" The last attempt failed: {fault}"
    return TimedOutError(f"{what} did not succeed within {timeout_s:g} s.{last}")
