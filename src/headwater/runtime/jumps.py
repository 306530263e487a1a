"""A clock for deleting by age that does not trust sudden jumps."""

from dataclasses import dataclass
from threading import Lock

from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

# If it is so far ahead of the expected time, the clock was set, or the machine slept.
JUMP_MS = 10 * 60 * 1000
# By then whoever set it wrongly has noticed, or it was right.
BELIEVED_AFTER_S = 3600.0
# A jump that was not checked for so long may have been right in between: the wait starts over.
UNSEEN_S_MAX = 2 * BELIEVED_AFTER_S
_events = Events("clock")


@dataclass(slots=True)
class _Doubt:
    """How far the clock is ahead, since when, and when that was last seen."""

    ahead_ms: int
    since_s: float
    seen_s: float

    def goes_on(self, ahead_ms: int, passed_s: float) -> bool:
        is_same = abs(ahead_ms - self.ahead_ms) <= JUMP_MS
        return is_same and passed_s - self.seen_s < UNSEEN_S_MAX


class DoubtingClock:
    """Follow another clock, but when it leaps ahead, keep the old pace for a while.

    A machine whose clock is a year ahead for a minute must not lose the rows of a year. A clock
    that goes back is trusted: then less is deleted. `believed_ms` is the last trusted time of an
    earlier process; a clock that is far ahead of that is not trusted either.
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
        """How far the clock is ahead of the trusted time; 0 if it is trusted."""
        with self._telling:
            return self._doubt.ahead_ms if self._doubt else 0

    def now_ms(self) -> int:
        """Return the trusted time, in milliseconds since the epoch."""
        with self._telling:
            return self._now_ms()

    def _now_ms(self) -> int:
        wall_ms, passed_s = self._clock.now_ms(), self._clock.monotonic()
        expected_ms = self._wall_ms + int((passed_s - self._passed_s) * 1000)
        ahead_ms = wall_ms - expected_ms
        if ahead_ms > JUMP_MS and not self._is_believed(ahead_ms, passed_s):
            return expected_ms
        if self._doubt is not None:
            _events.info("clock trusted again", was_ahead_s=self._doubt.ahead_ms // 1000)
        self._wall_ms, self._passed_s, self._doubt = wall_ms, passed_s, None
        return wall_ms

    def monotonic(self) -> float:
        """Read a clock that never goes back, in seconds."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking anyone else."""
        await self._clock.sleep(seconds)

    def _is_believed(self, ahead_ms: int, passed_s: float) -> bool:
        """Tell whether the clock has been ahead by the same amount for long enough."""
        doubt = self._doubt
        if doubt is None or not doubt.goes_on(ahead_ms, passed_s):
            self._doubt = _Doubt(ahead_ms, passed_s, passed_s)
            _events.warning(
                "clock jumped", ahead_s=ahead_ms // 1000, believed_after_s=BELIEVED_AFTER_S
            )
            return False
        doubt.seen_s = passed_s
        return passed_s - doubt.since_s >= BELIEVED_AFTER_S
