"""Hashes of many keys at once, and of one; which records of a batch belong to the same key."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.rows.row_bytes import RowBytes, Words, overlapping_words

# Hashes of many keys at once, and of one; both give the same 64 bits on every machine.

_ALL = 2**64 - 1
_LENGTH_FACTOR = 0x9E3779B97F4A7C15
_WORD_FACTOR = 0xD6E8FEB86659FD93
_LAST_FACTOR = 0xA0761D6478BD642F
_SHIFT = 32
# How much of the last word of a key counts, by the number of its bytes.
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)] + [_ALL], np.uint64)


def hash_keys(keys: RowBytes, *, seed: int) -> Words:
    """Hash every key, all of them at once."""
    lengths = keys.lengths
    hashes = lengths.astype(np.uint64) * np.uint64(_LENGTH_FACTOR) ^ np.uint64(seed)
    words = overlapping_words(keys.data)
    longest = int(lengths.max(initial=0))
    is_even = bool((lengths == longest).all())
    # An empty key takes one step as well, whatever the others are.
    for at in range(0, longest or 1, 8):
        if is_even or at == 0:
            hashes = _step(hashes, words[keys.starts + at] & _mask(lengths - at))
        else:
            rows = np.flatnonzero(lengths > at)
            word = words[keys.starts[rows] + at] & _mask(lengths[rows] - at)
            hashes[rows] = _step(hashes[rows], word)
    hashes *= np.uint64(_LAST_FACTOR)
    hashes ^= hashes >> np.uint64(_SHIFT)
    return hashes * np.uint64(_LENGTH_FACTOR)


def hash_key(key: bytes, *, seed: int) -> int:
    """Return the hash of one key."""
    hashed = len(key) * _LENGTH_FACTOR & _ALL ^ seed
    for at in range(0, len(key) or 1, 8):
        hashed = (hashed ^ int.from_bytes(key[at : at + 8], "little")) * _WORD_FACTOR & _ALL
        hashed ^= hashed >> _SHIFT
    hashed = hashed * _LAST_FACTOR & _ALL
    return (hashed ^ hashed >> _SHIFT) * _LENGTH_FACTOR & _ALL


def begin_with(keys: RowBytes, prefix: bytes) -> npt.NDArray[np.bool_]:
    """Tell for every key whether it begins with a prefix."""
    count = len(keys)
    starts = RowBytes(keys.data, keys.starts, np.minimum(keys.ends, keys.starts + len(prefix)))
    wanted = RowBytes.of([prefix])
    return equal_keys(starts, wanted.take(np.zeros(count, np.int64)))


def equal_keys(keys: RowBytes, others: RowBytes) -> npt.NDArray[np.bool_]:
    """Tell for every key whether the other one has the same bytes."""
    lengths = keys.lengths
    equal = lengths == others.lengths
    words, other_words = overlapping_words(keys.data), overlapping_words(others.data)
    for at in range(0, int(lengths.max(initial=0)), 8):
        rows = np.flatnonzero(equal & (lengths > at))
        differ = words[keys.starts[rows] + at] ^ other_words[others.starts[rows] + at]
        equal[rows] = differ & _mask(lengths[rows] - at) == 0
    return equal


def _step(hashes: Words, words: Words) -> Words:
    hashes = (hashes ^ words) * np.uint64(_WORD_FACTOR)
    hashes ^= hashes >> np.uint64(_SHIFT)
    return hashes


def _mask(lengths: npt.NDArray[np.int64]) -> Words:
    return _MASKS[np.clip(lengths, 0, 8)]


Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Hold the distinct keys of a batch, and which of them each record has."""

    keys: RowBytes
    hashes: Hashes
    key_of: npt.NDArray[np.int64]
    # The first record of each key.
    first: npt.NDArray[np.int64]
    # Whether two of the keys have the same hash.
    share_hashes: bool = False


def group_keys(keys: RowBytes, hashes: Hashes) -> KeyGroups:
    """Number the distinct keys, in the order of records where none occurs twice."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.ones(len(keys), np.bool_)
    starts[1:] = ordered[1:] != ordered[:-1]
    if starts.all():
        # In the order of records the rows are read and written from start to end.
        numbers = np.arange(len(keys))
        return KeyGroups(keys, hashes, numbers, numbers)
    first = order[starts]
    key_of = np.empty(len(keys), np.int64)
    key_of[order] = np.cumsum(starts) - 1
    if not equal_keys(keys, keys.take(first[key_of])).all():
        return _group_one_by_one(keys, hashes)
    return KeyGroups(keys.take(first), ordered[starts], key_of, first)


def _group_one_by_one(keys: RowBytes, hashes: Hashes) -> KeyGroups:
    """Group where two keys of one batch share a hash."""
    numbers: dict[bytes, int] = {}
    firsts: list[int] = []
    key_of = np.empty(len(keys), np.int64)
    for row, key in enumerate(keys.to_list()):
        if key not in numbers:
            numbers[key] = len(firsts)
            firsts.append(row)
        key_of[row] = numbers[key]
    first = np.array(firsts, np.int64)
    return KeyGroups(keys.take(first), hashes[first], key_of, first, share_hashes=True)
