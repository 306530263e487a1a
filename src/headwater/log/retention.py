"""Settings of a log, and which segments have expired."""

from collections.abc import Sequence
from dataclasses import dataclass

SEGMENT_BYTES_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Limits of one bucket's log."""

    segment_bytes_max: int = 1 << 30
    index_interval_bytes: int = 64 << 10
    checkpoint_interval_bytes: int = 64 << 20
    writer_expiration_ms: int = 7 * 24 * 3600 * 1000
    batches_kept_per_writer: int = 5
    join_rows_max: int = 65_536
    join_gain_min: int = 16

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes_max <= SEGMENT_BYTES_LIMIT
        assert self.index_interval_bytes > 0
        assert self.batches_kept_per_writer > 0
        assert self.join_rows_max > 1


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """What retention needs to know about one segment."""

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
    """Compute the new log start; the last segment is active and always stays."""
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
