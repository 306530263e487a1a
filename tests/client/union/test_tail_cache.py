"""What is kept of logs between reads."""

import numpy as np
import pyarrow as pa

from headwater.model.bucket import OffsetRange, TableBucket
from headwater.read.offsets import LogBatch
from headwater.read.tails import LoggedTail, TailCache, TailKey

FIRST, SECOND = (TailKey(1, 1, None, bucket) for bucket in (0, 1))
COLUMNS = frozenset({"id"})


def batch(start: int, end: int) -> LogBatch:
    """Make rows whose ids are their offsets."""
    offsets = np.arange(start, end)
    rows = pa.record_batch({"id": pa.array(offsets)})
    return LogBatch(rows, None, offsets, 0, TableBucket(1, 0), None)


def tail(start: int, *steps: int) -> LoggedTail:
    """Make a tail that was read in steps."""
    found = LoggedTail(OffsetRange(start, start), COLUMNS)
    for end in steps:
        found = found.extended([batch(found.held.end, end)], end=end)
    return found


def ids(found: LoggedTail, start: int, end: int) -> list[int]:
    wanted = OffsetRange(start, end)
    return [number for rows in found.rows(wanted) for number in rows["id"].to_pylist()]


def test_rows_between_offsets_are_found_across_pieces():
    found = tail(10, 15, 20, 30)

    assert ids(found, 12, 22) == list(range(12, 22))
    assert ids(found, 0, 100) == list(range(10, 30))


def test_a_tail_is_cut_where_the_lake_goes_on():
    found = tail(10, 15, 20).cut(17)

    assert found.held == OffsetRange(17, 20)
    assert ids(found, 0, 100) == [17, 18, 19]


def test_many_small_steps_are_put_together():
    found = tail(0, *range(1, 200))

    assert len(found.pieces) < 10
    assert ids(found, 0, 200) == list(range(199))


def test_a_tail_reaches_from_within_only_and_with_its_columns():
    found = tail(10, 20)

    assert found.reaches(OffsetRange(10, 30), COLUMNS)
    assert not found.reaches(OffsetRange(9, 30), COLUMNS)
    assert not found.reaches(OffsetRange(20, 30), COLUMNS)
    assert not found.reaches(OffsetRange(10, 20), {"id", "text"})


def test_what_was_not_used_for_longest_goes_first():
    size = tail(0, 100).byte_count
    cache = TailCache(2 * size)

    cache.put(FIRST, tail(0, 100))
    cache.put(SECOND, tail(0, 100))
    cache.logged(FIRST)
    cache.put(TailKey(2, 1, None, 0), tail(0, 100))

    assert cache.logged(FIRST) is not None
    assert cache.logged(SECOND) is None
    assert cache.byte_count == 2 * size


def test_what_is_larger_than_the_cache_is_not_kept():
    cache = TailCache(100)

    cache.put(FIRST, tail(0, 100))

    assert cache.logged(FIRST) is None
    assert (len(cache), cache.byte_count) == (0, 0)


def test_what_is_put_again_counts_once():
    cache = TailCache(10_000)

    cache.put(FIRST, tail(0, 100))
    cache.put(FIRST, tail(0, 50))

    assert cache.byte_count == tail(0, 50).byte_count
