"""Rows that have one of some keys are found, whatever the keys look like."""

import numpy as np
import pyarrow as pa

from headwater.read.merge.keys import Columns, HashedKeys, finder, hashes_of, last_places
from tests.cases import cases

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def with_one_hash(count: int) -> Columns:
    """Return different keys of two numbers that all have the same hash."""
    first = np.arange(count)
    # The hash of the first number is what the second one is mixed with.
    mixed = first.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    return pa.array(first), pa.array(mixed.view(np.int64))


@cases("count", [2, 16, 17, 100])
def test_keys_with_the_same_hash_are_told_apart(count: int) -> None:
    keys = with_one_hash(count)
    assert len(np.unique(hashes_of(keys))) == 1
    held = tuple(column.filter(pa.array(np.arange(count) % 2 == 0)) for column in keys)

    found = finder(held)(keys)

    assert HashedKeys.of(keys).alike == count
    assert found.tolist() == [at % 2 == 0 for at in range(count)]


@cases(
    "held",
    [[0], [5, 6, 9], [INT_MIN], [INT_MAX], [INT_MIN, INT_MAX], [INT_MIN, 0], [0, 10**12, INT_MAX]],
)
def test_whole_numbers_are_found_to_their_very_ends(held: list[int]) -> None:
    rows = [INT_MIN, INT_MIN + 1, -1, 0, 1, 5, 6, 7, 8, 9, 10, 10**12, INT_MAX - 1, INT_MAX]

    found = finder((pa.array(held),))((pa.array(rows),))

    assert found.tolist() == [row in held for row in rows]


@cases("spread", [1, 1_000_003])
def test_many_numbers_are_found(spread: int) -> None:
    held = np.random.default_rng(1).permutation(50_000)[:5_000] * spread
    rows = np.arange(-10_000, 60_000) * spread

    found = finder((pa.array(held),))((pa.array(rows),))

    assert np.array_equal(found, np.isin(rows, held))


def test_many_texts_are_found() -> None:
    held = np.random.default_rng(1).permutation(50_000)[:5_000]
    rows = pa.array(np.arange(60_000)).cast(pa.string()).cast(pa.binary())

    found = finder((pa.array(held).cast(pa.string()).cast(pa.binary()),))((rows,))

    assert np.array_equal(found, np.isin(np.arange(60_000), held))


def test_slices_of_columns_are_looked_through_like_whole_ones() -> None:
    texts = pa.array([b"a", b"bb", b"", b"nine bytes"])
    numbers = pa.array([1, 2, 3, 4])

    find = finder((texts.slice(1, 2), numbers.slice(1, 2)))

    assert find((texts.slice(2), numbers.slice(2))).tolist() == [True, False]


@cases("count", [1, 2, 17])
def test_the_last_places_of_keys_with_the_same_hash_are_found(count: int) -> None:
    keys = tuple(pa.concat_arrays([column, column]) for column in with_one_hash(count))

    assert last_places(keys).tolist() == list(range(count, 2 * count))
