"""Decide which segments have had their time."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """Hold what retention needs to know about one segment."""

    base_offset: int
    end_offset: int
    size_bytes: int
    timestamp_max_ms: int


def expired_segments(
    segments: Sequence[SegmentSpan],
    *,
    now_ms: int,
    ttl_ms: int | None,
    bytes_max: int | None,
    needed_from: int,
) -> int:
    """Return the new log start; the last segment is the active one and always stays."""
    excess = sum(span.size_bytes for span in segments) - bytes_max if bytes_max is not None else 0
    for span in segments[:-1]:
        is_old = ttl_ms is not None and span.timestamp_max_ms < now_ms - ttl_ms
        if span.end_offset > needed_from or not (is_old or excess > 0):
            return span.base_offset
        excess -= span.size_bytes
    return segments[-1].base_offset


def should_roll_expired(
    active: SegmentSpan, *, now_ms: int, ttl_ms: int | None, needed_from: int
) -> bool:
    """Tell whether the active segment holds only expired data, so that rolling frees it."""
    if ttl_ms is None or active.size_bytes == 0 or active.end_offset > needed_from:
        return False
    return active.timestamp_max_ms < now_ms - ttl_ms
