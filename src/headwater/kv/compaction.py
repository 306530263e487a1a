"""Decide which segments to rewrite, so that dead rows give their room back."""

from collections.abc import Sequence
from dataclasses import dataclass

DEAD_SHARE_MIN = 0.5
SMALL_COUNT_MIN = 8
VICTIM_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class SegmentUse:
    """Hold what planning needs to know about one sealed segment."""

    number: int
    size_bytes: int
    live_bytes: int
    oldest_ms: int
    newest_ms: int


def segments_to_compact(
    segments: Sequence[SegmentUse], *, small_bytes: int, age_span_ms_max: int | None
) -> tuple[int, ...]:
    """Return the segments to rewrite as one: those mostly dead, or many that are small.

    Where rows expire by age, only segments of about the same age are put together.
    """
    by_age = sorted(segments, key=lambda segment: (segment.oldest_ms, segment.number))
    for group in _of_similar_age(by_age, age_span_ms_max):
        dead = [segment for segment in group if _is_mostly_dead(segment)]
        small = [segment for segment in group if segment.size_bytes < small_bytes]
        chosen = {segment.number: segment for segment in dead}
        if len(small) >= SMALL_COUNT_MIN:
            chosen |= {segment.number: segment for segment in small}
        if chosen:
            return _bounded([segment for segment in group if segment.number in chosen])
    return ()


def _is_mostly_dead(segment: SegmentUse) -> bool:
    return segment.size_bytes - segment.live_bytes > segment.size_bytes * DEAD_SHARE_MIN


def _of_similar_age(
    segments: Sequence[SegmentUse], span_ms_max: int | None
) -> Sequence[Sequence[SegmentUse]]:
    if span_ms_max is None:
        return [segments]
    groups: list[list[SegmentUse]] = []
    for segment in segments:
        together = [*groups[-1], segment] if groups else [segment]
        newest_ms = max(each.newest_ms for each in together)
        if groups and newest_ms - together[0].oldest_ms <= span_ms_max:
            groups[-1] = together
        else:
            groups.append([segment])
    return groups


def _bounded(segments: Sequence[SegmentUse]) -> tuple[int, ...]:
    """Take as many as leave a segment of reasonable size, but at least one."""
    chosen: list[int] = []
    live_bytes = 0
    for segment in segments:
        live_bytes += segment.live_bytes
        if chosen and live_bytes > VICTIM_BYTES_MAX // 2:
            break
        chosen.append(segment.number)
    return tuple(chosen)
