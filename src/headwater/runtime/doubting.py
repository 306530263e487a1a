"""A clock for what is deleted by age, which does not believe a jump of the time at once."""

from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

# So far ahead of what should have passed, a clock was set, or the machine slept.
JUMP_MS = 10 * 60 * 1000
# By then whoever set it wrongly has noticed, or it was right.
BELIEVED_AFTER_S = 3600.0
_events = Events("clock")


class DoubtingClock:
    """Tell the time of another clock, but go on as before for a while when it leaps ahead.

    A machine whose clock is a year ahead for a minute must not lose the rows of a year. A clock
    that goes back is believed: then less is deleted.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_ms = clock.now_ms()
        self._passed_s = clock.monotonic()
        self._doubted_from_s: float | None = None

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch by which things expire."""
        wall_ms, passed_s = self._clock.now_ms(), self._clock.monotonic()
        expected_ms = self._wall_ms + int((passed_s - self._passed_s) * 1000)
        if wall_ms - expected_ms > JUMP_MS and not self._is_believed(passed_s):
            if self._doubted_from_s is None:
                self._doubted_from_s = passed_s
                ahead_s = (wall_ms - expected_ms) // 1000
                _events.warning("clock jumped", ahead_s=ahead_s, believed_after_s=BELIEVED_AFTER_S)
            return expected_ms
        self._wall_ms, self._passed_s, self._doubted_from_s = wall_ms, passed_s, None
        return wall_ms

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up anyone else."""
        await self._clock.sleep(seconds)

    def _is_believed(self, passed_s: float) -> bool:
        since_s = self._doubted_from_s
        return since_s is not None and passed_s - since_s >= BELIEVED_AFTER_S
