"""How fast tables grow, from where their logs ended before: kept for each caller apart."""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from headwater.runtime.clock import Clock

ENDS_MAX = 20_000
"""Tables whose ends are remembered, for all callers together."""
POINTS_MAX = 120
GAP_S_MIN = 1.0
"""Ends that were noted closer together than this tell no rate."""
TOTALS_MAX = 64


@dataclass(frozen=True, slots=True)
class EndSeen:
    """Where the logs of a table ended together at a moment."""

    at_s: float
    end: int


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """How many rows per second arrived in all tables up to a moment."""

    at_ms: int
    rows_per_s: float | None


class Growth:
    """Remember ends, and tell rates; may be used by any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: OrderedDict[tuple[str, str], tuple[EndSeen, EndSeen]] = OrderedDict()
        self._points: OrderedDict[str, deque[GrowthPoint]] = OrderedDict()

    def rate(self, caller: str, table: str, end: int, *, now_s: float) -> float | None:
        """Note where a table ends, and return its rows per second; None before there are two."""
        now = EndSeen(now_s, end)
        with self._lock:
            before, last = self._seen.get((caller, table), (now, now))
            if end < last.end:  # Dropped and created anew.
                before = last = now
            if now_s - last.at_s >= GAP_S_MIN:
                before, last = last, now
            self._seen[caller, table] = (before, last)
            self._seen.move_to_end((caller, table))
            while len(self._seen) > ENDS_MAX:
                self._seen.popitem(last=False)
        if last.at_s - before.at_s < GAP_S_MIN:
            return None
        return (last.end - before.end) / (last.at_s - before.at_s)

    def note(self, caller: str, rates: Mapping[str, float | None], *, now_ms: int) -> None:
        """Add a point to the line of all tables that a caller sees."""
        known = [rate for rate in rates.values() if rate is not None]
        point = GrowthPoint(now_ms, sum(known) if known else None)
        with self._lock:
            line = self._points.setdefault(caller, deque(maxlen=POINTS_MAX))
            if not line or now_ms - line[-1].at_ms >= GAP_S_MIN * 1000:
                line.append(point)
            self._points.move_to_end(caller)
            while len(self._points) > TOTALS_MAX:
                self._points.popitem(last=False)

    def points(self, caller: str) -> tuple[GrowthPoint, ...]:
        """Return the line of a caller, oldest first."""
        with self._lock:
            return tuple(self._points.get(caller, ()))


# What many browsers ask for again and again.

T = TypeVar("T")
FRESH_S = 2.5
GLANCES_MAX = 64


@dataclass(slots=True)
class _Glance(Generic[T]):
    lock: Lock = field(default_factory=Lock)
    at_s: float = float("-inf")
    value: T | None = None


class Glances(Generic[T]):
    """Collect something once for all browsers of a caller, and keep it for a moment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._held: OrderedDict[str, _Glance[T]] = OrderedDict()

    def of(self, caller: str, collect: Callable[[], T]) -> T:
        """Return what was collected a moment ago, or collect it while others wait for it."""
        with self._lock:
            held = self._held.setdefault(caller, _Glance())
            self._held.move_to_end(caller)
            while len(self._held) > GLANCES_MAX:
                self._held.popitem(last=False)
        with held.lock:
            if held.value is None or self._clock.monotonic() - held.at_s > FRESH_S:
                held.value = collect()
                held.at_s = self._clock.monotonic()
            return held.value
