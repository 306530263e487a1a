"""Hashes of many keys at once, and of one; both give the same 64 bits on every machine."""

import numpy as np
import numpy.typing as npt

from headwater.rows.row_bytes import RowBytes, Words, overlapping_words

_ALL = 2**64 - 1
_LENGTH_FACTOR = 0x9E3779B97F4A7C15
_WORD_FACTOR = 0xD6E8FEB86659FD93
_LAST_FACTOR = 0xA0761D6478BD642F
_SHIFT = 32
# How much of the last word of a key counts, by the number of its bytes.
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)] + [_ALL], np.uint64)


def hash_keys(keys: RowBytes, *, seed: int) -> Words:
    """Return the hash of every key."""
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
