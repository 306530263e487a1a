"""What the numbers of a soak say: whether something grows, stands still or was hardly looked at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SAMPLE_S = 10.0
AUDIT_S = 60.0
WARM_UP = 0.25
"""The share of a soak in which everything may still grow."""
JUDGED_S_MIN = 2700.0
"""In less than three quarters of an hour, logs and caches that fill look like a leak."""
POINTS_MAX = 1000
TIERED_WITHIN_S = 90.0
"""Tables are to be tiered every 20 seconds, so much more often than this."""


@dataclass(frozen=True, slots=True)
class Point:
    """Say what was measured at a moment."""

    at_s: float
    value: float


@dataclass(frozen=True, slots=True)
class Room:
    """Say how much something may grow in an hour: so much, or a share of what there is."""

    per_hour: float
    share_per_hour: float = 0.0


# Descriptors do not grow at all: with steps of one, the median of all slopes is 0 until most pairs
# differ. Pools start a thread when all others happen to be busy, up to some twenty in all: one or
# two come late. A leak brings one with every connection, round or audit, 60 an hour at least.
# Memory grows a little for long: in soaks of 12 and 23 minutes by 14 to 31 MiB an hour, ever more
# slowly, while logs fill up to what retention leaves; in an hour by 3 to 5.
ROOM = {
    "rss_mib": Room(24.0, share_per_hour=0.1),
    "descriptors": Room(1.0),
    "threads": Room(4.0),
}


def is_long_enough(seconds: float) -> bool:
    """Tell whether growth can be judged."""
    return seconds >= JUDGED_S_MIN


def grown(points: Sequence[Point], what: str, room: Room) -> str:
    """Say how fast something grows once it is warm, if it does; a short soak says nothing."""
    if not points or not is_long_enough(points[-1].at_s):
        return ""
    warm = [each for each in points if each.at_s >= points[-1].at_s * WARM_UP]
    per_hour = slope(warm) * 3600
    usual = float(np.median([each.value for each in warm]))
    if per_hour <= max(room.per_hour, usual * room.share_per_hour):
        return ""
    return f"{what} grew by {per_hour:.1f} an hour, from {usual:.1f}"


def slope(points: Sequence[Point]) -> float:
    """Return the median of the slopes between any two points, which no outlier moves."""
    thinned = points[:: -(-len(points) // POINTS_MAX)]
    at = np.array([each.at_s for each in thinned])
    values = np.array([each.value for each in thinned])
    earlier, later = np.triu_indices(len(at), k=1)
    if not len(earlier):
        return 0.0
    return float(np.median((values[later] - values[earlier]) / (at[later] - at[earlier])))


def stalled(points: Sequence[Point], what: str) -> str:
    """Say that something did not advance in the last quarter, though it should have."""
    if not points or points[-1].at_s < TIERED_WITHIN_S:
        return ""
    last = points[-1]
    since_s = last.at_s - max(last.at_s / 4, TIERED_WITHIN_S)
    before = [each for each in points if each.at_s <= since_s] or [Point(0.0, 0.0)]
    if last.value > before[-1].value:
        return ""
    return f"{what} stands at {last.value:.0f} since {before[-1].at_s:.0f} s"


def hardly_seen(seconds: float, *, samples: int, audits: int) -> list[str]:
    """Say of what there is less than half of what so long a soak should have."""
    had = {"samples": (samples, SAMPLE_S), "audits": (audits, AUDIT_S)}
    return [
        f"only {count} {what} in {seconds:.0f} s"
        for what, (count, every_s) in had.items()
        if count < seconds // every_s / 2
    ]
