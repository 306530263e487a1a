"""Records that tell where the next one begins."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.rows.row_bytes import follow_chain

lengths_lists = st.lists(st.integers(1, 9), max_size=30)
decoys = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 9)), max_size=20)


def chain(lengths: list[int]) -> dict[int, int]:
    """Return where each record begins and ends."""
    ends = np.cumsum([0, *lengths]).tolist()
    return dict(pairwise(ends))


@given(lengths_lists, decoys)
def test_decoys_are_swept_out_or_the_chain_is_left_to_be_walked(lengths, false):
    records, end = chain(lengths), sum(lengths)
    seen = {at: at + size for at, size in false if at + size <= end} | records
    places = np.array(sorted(seen), np.int64)
    nexts = np.array([seen[place] for place in places.tolist()], np.int64)

    found = follow_chain(places, nexts, start=0, end=end)

    assert found is None or places[found].tolist() == sorted(records)


@given(lengths_lists)
def test_a_chain_without_decoys_is_found(lengths):
    records, end = chain(lengths), sum(lengths)
    places, nexts = np.array([*records], np.int64), np.array([*records.values()], np.int64)

    found = follow_chain(places, nexts, start=0, end=end)

    assert found is not None
    assert found.tolist() == list(range(len(lengths)))


def test_a_broken_chain_is_not_found():
    places, nexts = np.array([0, 5]), np.array([4, 9])

    assert follow_chain(places, nexts, start=0, end=9) is None
