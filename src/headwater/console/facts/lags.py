"""How far cursors lag over time, kept while somebody looks: for each caller apart."""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from headwater.client.cursors.admin import CursorState

LINES_MAX = 500
"""Cursors whose lags are remembered, for all callers together."""
POINTS_MAX = 600
BUCKETS_SHOWN_MAX = 8
"""Lines in a chart; those that lag most are shown."""
EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class LagPoint:
    """The unread rows of each bucket at a moment."""

    at_ms: int
    rows: dict[str, int]


class LagHistory:
    """Remember lags; may be used by any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lines: OrderedDict[tuple[str, str, str], deque[LagPoint]] = OrderedDict()

    def note(self, caller: str, state: CursorState, *, now_ms: int) -> tuple[LagPoint, ...]:
        """Add how a cursor stands now, and return its line, oldest first."""
        key = (caller, state.name, str(state.table))
        rows = {place_text(each.place): each.lag_rows for each in state.places}
        with self._lock:
            line = self._lines.setdefault(key, deque(maxlen=POINTS_MAX))
            if not line or now_ms - line[-1].at_ms >= EVERY_S * 1000:
                line.append(LagPoint(now_ms, rows))
            self._lines.move_to_end(key)
            while len(self._lines) > LINES_MAX:
                self._lines.popitem(last=False)
            return tuple(line)


def place_text(place: object) -> str:
    """Name a bucket as a legend does."""
    partition, bucket = getattr(place, "partition", None), getattr(place, "bucket", 0)
    return f"{partition}/{bucket}" if partition else str(bucket)


def lag_columns(points: Sequence[LagPoint]) -> dict[str, list[object]]:
    """Lay points out as a chart takes them: the buckets that lag most, and all of them together."""
    if not points:
        return {"labels": [], "columns": [[]]}
    newest = points[-1].rows
    names = sorted(newest, key=lambda name: (-newest[name], name))[:BUCKETS_SHOWN_MAX]
    times = [each.at_ms / 1000 for each in points]
    total = [sum(each.rows.values()) for each in points]
    lines = [[each.rows.get(name) for each in points] for name in names]
    return {
        "labels": ["all buckets", *(f"bucket {name}" for name in names)],
        "columns": [times, total, *lines],
    }
