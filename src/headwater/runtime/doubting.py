"""A clock for what is deleted by age, which does not believe a jump of the time at once."""

from dataclasses import dataclass
from threading import Lock

from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

# So far ahead of what should have passed, a clock was set, or the machine slept.
JUMP_MS = 10 * 60 * 1000
# By then whoever set it wrongly has noticed, or it was right.
BELIEVED_AFTER_S = 3600.0
# What nobody has looked at for so long may have been right meanwhile: it is doubted anew.
UNSEEN_S_MAX = 2 * BELIEVED_AFTER_S
_events = Events("clock")


@dataclass(slots=True)
class _Doubt:
    """Hold by how much the clock is ahead, since when that is known, and when it was seen last."""

    ahead_ms: int
    since_s: float
    seen_s: float

    def goes_on(self, ahead_ms: int, passed_s: float) -> bool:
        is_same = abs(ahead_ms - self.ahead_ms) <= JUMP_MS
        return is_same and passed_s - self.seen_s < UNSEEN_S_MAX


class DoubtingClock:
    """Tell the time of another clock, but go on as before for a while when it leaps ahead.

    A machine whose clock is a year ahead for a minute must not lose the rows of a year. A clock
    that goes back is believed: then less is deleted. Whoever knows which time was believed last,
    before this process began, gives it: a clock that is far ahead of it is doubted as well.
    """

    def __init__(self, clock: Clock, *, believed_ms: int | None = None) -> None:
        self._clock = clock
        self._wall_ms = clock.now_ms()
        self._passed_s = clock.monotonic()
        self._doubt: _Doubt | None = None
        self._telling = Lock()
        if believed_ms is not None and (ahead_ms := self._wall_ms - believed_ms) > JUMP_MS:
            self._wall_ms = believed_ms
            self._doubt = _Doubt(ahead_ms, self._passed_s, self._passed_s)

    @property
    def doubted_ms(self) -> int:
        """Return by how much the clock is ahead of what is believed; 0 if it is believed."""
        with self._telling:
            return self._doubt.ahead_ms if self._doubt else 0

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch by which things expire."""
        with self._telling:
            return self._now_ms()

    def _now_ms(self) -> int:
        wall_ms, passed_s = self._clock.now_ms(), self._clock.monotonic()
        expected_ms = self._wall_ms + int((passed_s - self._passed_s) * 1000)
        ahead_ms = wall_ms - expected_ms
        if ahead_ms > JUMP_MS and not self._is_believed(ahead_ms, passed_s):
            return expected_ms
        if self._doubt is not None:
            _events.info("clock is believed", was_ahead_s=self._doubt.ahead_ms // 1000)
        self._wall_ms, self._passed_s, self._doubt = wall_ms, passed_s, None
        return wall_ms

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up anyone else."""
        await self._clock.sleep(seconds)

    def _is_believed(self, ahead_ms: int, passed_s: float) -> bool:
        """Tell whether the clock has been ahead by as much for long enough."""
        doubt = self._doubt
        if doubt is None or not doubt.goes_on(ahead_ms, passed_s):
            self._doubt = _Doubt(ahead_ms, passed_s, passed_s)
            _events.warning(
                "clock jumped", ahead_s=ahead_ms // 1000, believed_after_s=BELIEVED_AFTER_S
            )
            return False
        doubt.seen_s = passed_s
        return passed_s - doubt.since_s >= BELIEVED_AFTER_S
