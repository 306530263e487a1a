"""The index of prefixes finds every key that was noted, and may find more."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.kv.index import TAIL_COUNT_MAX, PrefixIndex

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**64 - 1)), max_size=20)


def noted(index, some):
    index.add(
        np.array([prefix for prefix, _ in some], np.uint64),
        np.array([key for _, key in some], np.uint64),
    )


@given(st.lists(pairs, max_size=6), st.integers(0, 6))
def test_the_keys_of_a_prefix_are_found_whenever_they_were_noted(batches, merge_after):
    index = PrefixIndex()

    for number, batch in enumerate(batches):
        noted(index, batch)
        if number == merge_after:
            index.arrays()

    for prefix in range(7):
        keys = {key for batch in batches for one, key in batch if one == prefix}
        assert index.candidates(prefix).tolist() == sorted(keys)


@given(pairs, pairs)
def test_an_index_is_made_again_from_its_arrays(first, second):
    index = PrefixIndex()
    noted(index, first)

    again = PrefixIndex(*index.arrays())
    noted(index, second)
    noted(again, second)

    for prefix in range(6):
        assert again.candidates(prefix).tolist() == index.candidates(prefix).tolist()


def test_a_key_that_comes_and_goes_takes_room_only_once():
    index = PrefixIndex()

    for _ in range(TAIL_COUNT_MAX * 3):
        noted(index, [(1, 2)])

    assert index.candidates(1).tolist() == [2]
    assert index.size_bytes <= 16 * (TAIL_COUNT_MAX + 1)


def test_whoever_reads_during_a_merge_misses_nothing():
    with ThreadPoolExecutor(1) as threads:
        for _ in range(100):
            index = PrefixIndex()
            for key in range(40):
                noted(index, [(1, key)])
            merging = threads.submit(index.arrays)

            while not merging.done():
                assert len(index.candidates(1)) == 40
