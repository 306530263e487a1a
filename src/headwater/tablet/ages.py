"""Rows that expire by age: kept apart from much younger ones, as segments expire whole."""

from headwater.kv.heap import Heap
from headwater.tablet.keyed_table import TableVersion

# Rows expire together with others that were written up to this part of their time before.
AGE_STEPS = 8


def age_span_ms(version: TableVersion) -> int | None:
    """Return how far apart in time rows of one segment may be written."""
    ttl_ms = version.options.kv.ttl_ms
    return ttl_ms and ttl_ms // AGE_STEPS


def seal_aged(heap: Heap, version: TableVersion, now_ms: int) -> None:
    """Let rows that are written now not lie together with much older ones."""
    span_ms, active = age_span_ms(version), heap.segments.get(heap.active)
    if span_ms is not None and active is not None and now_ms - active.oldest_ms > span_ms:
        heap.seal()
