"""Hashes and comparisons of many keys at once say what they say of one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.kv.hashes import begin_with, equal_keys, hash_key, hash_keys
from headwater.rows.row_bytes import RowBytes

keys = st.lists(st.binary(max_size=40), max_size=20)
seeds = st.integers(0, 2**64 - 1)
HEADWATER = 0x11C5889D3353E111


@given(keys, seeds)
def test_many_keys_have_the_hashes_that_each_has_alone(values, seed):
    hashes = hash_keys(RowBytes.of(values), seed=seed)

    assert hashes.tolist() == [hash_key(value, seed=seed) for value in values]


@given(keys, seeds)
def test_the_bytes_around_a_key_do_not_change_its_hash(values, seed):
    packed = RowBytes.of(values)
    around = RowBytes.of([b"\xff" + value + b"\xee" * 9 for value in values])
    within = RowBytes(around.data, around.starts + 1, around.ends - 9)

    assert hash_keys(within, seed=seed).tolist() == hash_keys(packed, seed=seed).tolist()


def test_a_hash_is_the_same_in_every_version_that_reads_the_snapshots_of_this_one():
    assert hash_key(b"", seed=0) == 0
    assert hash_key(b"headwater", seed=1) == HEADWATER
    assert hash_key(b"headwater", seed=2) != HEADWATER


def test_hashes_of_small_numbers_are_spread_over_the_whole_range():
    numbers = [number.to_bytes(8, "little") for number in range(100_000)]

    hashes = hash_keys(RowBytes.of(numbers), seed=3)

    assert len(np.unique(hashes)) == len(numbers)
    counts = np.bincount((hashes >> np.uint64(56)).astype(np.int64), minlength=256)
    assert counts.min() > 250
    assert counts.max() < 550


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20)), max_size=20))
def test_keys_are_equal_only_if_all_their_bytes_are(pairs):
    same = [(left, left) for left, _ in pairs]
    longer = [(left, left + b"\0") for left, _ in pairs]
    lefts, rights = zip(*(pairs + same + longer), strict=True) if pairs else ((), ())

    equal = equal_keys(RowBytes.of(lefts), RowBytes.of(rights))

    assert equal.tolist() == [left == right for left, right in zip(lefts, rights, strict=True)]


@given(keys, st.binary(max_size=20))
def test_a_key_begins_with_what_python_says_it_begins_with(values, prefix):
    values = [*values, prefix, prefix + b"x", prefix[:-1]]

    begins = begin_with(RowBytes.of(values), prefix)

    assert begins.tolist() == [value.startswith(prefix) for value in values]
