"""Looking for whole batches behind bad bytes takes time and memory by what is there, no more."""

import tracemalloc

import numpy as np
import pytest

from headwater.log.recovery import last_offset_seen
from headwater.rows.log_batch import build_batch
from tests.cases import cases

MEMORY_MAX = 48 << 20


def batches(count: int, *, size: int = 60, every_bad: int = 0) -> bytearray:
    """Return batches of one record each from offset 1 on, some of them with a flipped bit."""
    data = bytearray(b"bad")
    for number in range(1, count + 1):
        batch = bytearray(
            build_batch(b"x" * (size - 48), schema_id=1, record_count=1, base_offset=number)
        )
        if every_bad and number % every_bad == 0:
            batch[-1] ^= 1
        data += batch
    return data


@pytest.mark.timeout(30)
def test_many_small_batches_behind_a_hole_are_passed_quickly():
    data = bytes(batches(30_000))

    assert last_offset_seen(data, offset=0) == 30_001


@pytest.mark.timeout(30)
def test_many_holes_between_small_batches_are_passed_quickly():
    data = bytes(batches(5_001, every_bad=2))

    assert last_offset_seen(data, offset=0) == 5_002


@pytest.mark.timeout(30)
def test_numbers_that_look_like_headers_are_passed_quickly():
    numbers = np.arange(500_000, 500_000 + (1 << 20), dtype=np.int64)

    assert last_offset_seen(bytes(8) + numbers.tobytes(), offset=400_000) is None


def test_an_empty_batch_behind_a_hole_is_found():
    empty = build_batch(b"", schema_id=1, record_count=0, base_offset=9, changes=b"")

    assert last_offset_seen(b"\xff" * 99 + empty, offset=2) == 10


def test_a_long_end_without_batches_is_searched_in_little_memory():
    data = b"\x01" * (8 << 20)
    tracemalloc.start()

    seen = last_offset_seen(data, offset=5)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen is None
    assert peak < MEMORY_MAX


@cases("lead", [1, 4_000, 4_095, 4_096, 4_097, 70_000, 1_100_000])
def test_a_batch_is_found_however_far_behind(lead):
    batch = build_batch(b"here", schema_id=1, record_count=3, base_offset=9)

    assert last_offset_seen(b"\xff" * lead + batch, offset=2) == 12


def test_a_batch_that_is_bad_itself_counts_behind_a_whole_one():
    assert last_offset_seen(bytes(batches(4, every_bad=4)), offset=0) == 5
