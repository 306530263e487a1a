"""Room for answers: what is being read for clients, and what they have not taken yet.

Large answers are read into memory and stay there until the client has taken them, so many slow
readers could fill it. Whoever wants to read takes room first: all of it, or what is left, which
makes a smaller answer. With no room at all it waits a little; then the reader that has been stuck
longest is dropped, and if there is none, the request is refused and may be sent again. Beyond that,
large requests are refused while the process has taken almost all memory that there is.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headwater.errors import RetryLaterError
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.runtime.memory import anonymous_bytes, give_back

_events = Events("memory")
SHRUNK_BYTES_MIN = 64 * 1024
LOOK_EVERY_S = 0.05
LOOKS_MAX = 40
FULL_SHARE = 0.85
"""Of the memory there is: the rest is for what nobody counts."""
MEASURED_EVERY_S = 0.05
GIVEN_BACK_EVERY_S = 1.0
MIB = 1024**2


class Memory:
    """Refuse large work while the process has taken almost all memory that there is."""

    def __init__(
        self, bytes_max: int, clock: Clock, *, taken: Callable[[], int] = anonymous_bytes
    ) -> None:
        self._full_bytes = int(bytes_max * FULL_SHARE)
        self._clock = clock
        self._measure = taken
        self._measured_at = self._gave_back_at = -GIVEN_BACK_EVERY_S
        self._taken = 0
        self._sparing = Sparing(clock, lines_max=1)

    def check(self) -> None:
        """Refuse what would take much more memory, if there is a limit and it is close."""
        if not self._full_bytes or self._taken_now() <= self._full_bytes:
            return
        if self._clock.monotonic() - self._gave_back_at >= GIVEN_BACK_EVERY_S:
            self._gave_back_at = self._clock.monotonic()
            give_back()
            self._taken = self._measure()
            if self._taken <= self._full_bytes:
                return
        reason = f"The server has taken {self._taken // MIB} MiB of memory, almost all there is."
        if (left_out := self._sparing.turn()) is not None:
            _events.warning("memory full", taken_mib=self._taken // MIB, **left_out)
        raise RetryLaterError(reason)

    def _taken_now(self) -> int:
        now = self._clock.monotonic()
        if now - self._measured_at >= MEASURED_EVERY_S:
            self._measured_at, self._taken = now, self._measure()
        return self._taken


class Answers:
    """Hand out room for answers."""

    def __init__(self, total_bytes: int, memory: Memory, clock: Clock) -> None:
        self._total_bytes = total_bytes
        self._clock = clock
        self._reading_bytes = 0
        # What clients have yet to take, as of the last look or more: looking at all of them costs.
        self._unsent_bytes = 0
        self.memory = memory
        # Told by the listener: bytes that slow readers have not taken, and how to drop one.
        self.unsent: Callable[[], int] = lambda: 0
        self.drop_slowest: Callable[[], bool] = lambda: False

    @asynccontextmanager
    async def room(self, wanted: int, *, at_any_cost: bool = False) -> AsyncIterator[int]:
        """Give as many bytes as an answer may have, while it is made.

        `at_any_cost` makes a tiny answer rather than none: for what cannot be asked again.
        """
        granted = self._left(wanted) or await self._wait(wanted, at_any_cost=at_any_cost)
        self._reading_bytes += granted
        try:
            yield granted
        finally:
            self._reading_bytes -= granted
            self._unsent_bytes += granted

    def _left(self, wanted: int) -> int:
        """Return what there is room for, or 0 if that is too little."""
        if self._reading_bytes + self._unsent_bytes + wanted > self._total_bytes:
            self._unsent_bytes = self.unsent()
        left = min(self._total_bytes - self._reading_bytes - self._unsent_bytes, wanted)
        return max(left, 1) if left >= min(wanted, SHRUNK_BYTES_MIN) else 0

    async def _wait(self, wanted: int, *, at_any_cost: bool) -> int:
        for _ in range(LOOKS_MAX):
            await self._clock.sleep(LOOK_EVERY_S)
            if granted := self._left(wanted):
                return granted
        if at_any_cost or self.drop_slowest():
            return min(wanted, SHRUNK_BYTES_MIN)
        raise RetryLaterError(
            f"Answers of {self._total_bytes // MIB} MiB are on their way, as much as there may be."
        )
