"""Bucket functions: which bucket a key belongs to, in Apache Fluss and in the lake formats.

Many keys are hashed at once with numpy; a single key takes plain Python, which is faster.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial

import numpy as np
import numpy.typing as npt

from headwater.rows.row_bytes import Longs, RowBytes, overlapping

# Murmur hashes of many byte strings at once, in the two variants that bucket functions use.

Hashes = npt.NDArray[np.uint32]
# Adds the word after the last whole one to hashes; only so many of its bytes count.
Tail = Callable[[Hashes, Hashes, Longs], None]

# Few enough that all intermediate results of a block stay in the CPU cache.
_BLOCK_ROWS = 16_384
_WORD_SHIFT = 2
_TAIL_BYTES_MAX = 3
_SMALL_MAX = 1 << 16
_WORD_BITS = 32
_FIRST = np.uint32(0xCC9E2D51)
_SECOND = np.uint32(0x1B873593)
_FIVE = np.uint32(5)
_STEP = np.uint32(0xE6546B64)
_MIX_FIRST = np.uint32(0x85EBCA6B)
_MIX_SECOND = np.uint32(0xC2B2AE35)
# Masks the word after the last whole one, by the number of its bytes.
_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFF_FFFF], np.uint32)


def murmur_by_bytes(keys: RowBytes, *, seed: int, signed: bool = True) -> Hashes:
    """Hash strings, mixing each byte after the last whole word separately."""
    return _hash_all(keys, seed=seed, tail=_mix_signed_bytes if signed else _mix_unsigned_bytes)


def murmur3_32(keys: RowBytes, *, seed: int) -> Hashes:
    """Hash strings like the reference murmur3 of 32 bits."""
    return _hash_all(keys, seed=seed, tail=_mix_tail_word)


def mix_word(words: Hashes) -> Hashes:
    """Mix the bits of words before they are added to a hash."""
    mixed = words * _FIRST
    _rotate(mixed, 15)
    mixed *= _SECOND
    return mixed


def take_in(hashes: Hashes, mixed: Hashes) -> None:
    """Add mixed words to hashes, in place."""
    hashes ^= mixed
    spread(hashes)


def spread(hashes: Hashes) -> None:
    """Do the second half of a step, in place."""
    _rotate(hashes, 13)
    hashes *= _FIVE
    hashes += _STEP


def finish(hashes: Hashes) -> None:
    """Finalise: let every bit depend on every other, in place."""
    hashes ^= hashes >> np.uint32(16)
    hashes *= _MIX_FIRST
    hashes ^= hashes >> np.uint32(13)
    hashes *= _MIX_SECOND
    hashes ^= hashes >> np.uint32(16)


def _hash_all(keys: RowBytes, *, seed: int, tail: Tail) -> Hashes:
    hashes = np.full(len(keys), seed, np.uint32)
    for first in range(0, len(keys), _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        part = RowBytes(keys.data, keys.starts[block], keys.ends[block])
        hashes[block] = _hash_block(part, seed=seed, tail=tail)
    return hashes


def _hash_block(keys: RowBytes, *, seed: int, tail: Tail) -> Hashes:
    counts = keys.lengths >> _WORD_SHIFT
    most = int(counts.max())
    if most == int(counts.min()):
        return _hash_sorted(keys, counts, seed=seed, tail=tail)
    # Sorted by length, longest first, the strings that have another word are always a prefix.
    order = np.argsort(_small(most - counts), kind="stable")
    hashes = np.empty(len(keys), np.uint32)
    hashes[order] = _hash_sorted(keys.take(order), counts[order], seed=seed, tail=tail)
    return hashes


def _small(numbers: Longs) -> npt.NDArray[np.integer]:
    """Convert small numbers to a type that numpy sorts by counting."""
    return numbers.astype(np.uint16) if int(numbers.max()) < _SMALL_MAX else numbers


def _hash_sorted(keys: RowBytes, counts: Longs, *, seed: int, tail: Tail) -> Hashes:
    hashes = np.full(len(keys), seed, np.uint32)
    words = overlapping(keys.data, np.uint32).view(np.uint32)
    # How many strings have more than so many words.
    remaining = len(keys) - np.cumsum(np.bincount(counts)[:-1])
    for index, count in enumerate(remaining.tolist()):
        take_in(hashes[:count], mix_word(words[keys.starts[:count] + (index << _WORD_SHIFT)]))
    lengths = keys.lengths
    tail(hashes, words[keys.starts + (counts << _WORD_SHIFT)], lengths & _TAIL_BYTES_MAX)
    hashes ^= lengths.astype(np.uint32)
    finish(hashes)
    return hashes


def _mix_signed_bytes(hashes: Hashes, words: Hashes, rest: Longs) -> None:
    for index in range(int(rest.max())):
        signed = (words << np.uint32(24 - 8 * index)).view(np.int32) >> 24
        _mix_byte(hashes, signed.view(np.uint32), rest > index)


def _mix_unsigned_bytes(hashes: Hashes, words: Hashes, rest: Longs) -> None:
    for index in range(int(rest.max())):
        _mix_byte(hashes, (words >> np.uint32(8 * index)) & _TAIL_MASKS[1], rest > index)


def _mix_byte(hashes: Hashes, numbers: Hashes, is_there: npt.NDArray[np.bool_]) -> None:
    stepped = hashes.copy()
    take_in(stepped, mix_word(numbers))
    np.copyto(hashes, stepped, where=is_there)


def _mix_tail_word(hashes: Hashes, words: Hashes, rest: Longs) -> None:
    # An empty rest is a word of 0, which leaves the hash as it is.
    hashes ^= mix_word(words & _TAIL_MASKS[rest])


def _rotate(hashes: Hashes, bits: int) -> None:
    low = hashes >> np.uint32(_WORD_BITS - bits)
    hashes <<= np.uint32(bits)
    hashes |= low


# Bucket functions.

Buckets = npt.NDArray[np.int32]

_FLINK_SEED = 42
_ICEBERG_SEED = 0
_WORD_BYTES = np.uint32(4)
_SIGN = np.uint32(0x8000_0000)


class BucketFunction(StrEnum):
    """The ways to compute the bucket of a key.

    Fluss's Java client treats the last bytes of a key as signed numbers, its Rust client (under
    pyfluss) as unsigned ones.
    """

    FLUSS = "fluss"
    FLUSS_UNSIGNED = "fluss-unsigned"
    PAIMON = "paimon"
    PAIMON_UNSIGNED = "paimon-unsigned"
    ICEBERG = "iceberg"


def buckets_of(keys: RowBytes, count: int, *, function: BucketFunction) -> Buckets:
    """Compute the bucket of every key, in [0, count)."""
    return _FUNCTIONS[function](keys, count)


def _fluss(keys: RowBytes, count: int, *, signed: bool = True) -> Buckets:
    hashes = mix_word(murmur_by_bytes(keys, seed=_FLINK_SEED, signed=signed))
    spread(hashes)
    hashes ^= _WORD_BYTES
    finish(hashes)
    # The one number without a positive counterpart stands for 0.
    hashes[hashes == _SIGN] = 0
    return _remainders(np.abs(hashes.view(np.int32)).view(np.uint32), count)


def _paimon(keys: RowBytes, count: int, *, signed: bool = True) -> Buckets:
    hashes = murmur_by_bytes(keys, seed=_FLINK_SEED, signed=signed).view(np.int32)
    # The remainder has the sign of the hash, and is small enough to negate.
    return np.abs(np.fmod(hashes, np.int32(count)))


def _iceberg(keys: RowBytes, count: int) -> Buckets:
    return _remainders(murmur3_32(keys, seed=_ICEBERG_SEED) & ~_SIGN, count)


def _remainders(hashes: Hashes, count: int) -> Buckets:
    return np.remainder(hashes, np.uint32(count)).view(np.int32)


_FUNCTIONS: dict[BucketFunction, Callable[[RowBytes, int], Buckets]] = {
    BucketFunction.FLUSS: _fluss,
    BucketFunction.FLUSS_UNSIGNED: partial(_fluss, signed=False),
    BucketFunction.PAIMON: _paimon,
    BucketFunction.PAIMON_UNSIGNED: partial(_paimon, signed=False),
    BucketFunction.ICEBERG: _iceberg,
}


# A single key in plain Python: faster than numpy for just one.

_MASK = 0xFFFF_FFFF
_SEED = 42
_ONE_WORD_BYTES = 4
_ONE_SIGN = 0x8000_0000


def fluss_bucket(key: bytes, count: int, *, signed: bool = True) -> int:
    """Compute the bucket of a key with Fluss's own function."""
    if count == 1:
        return 0
    whole = len(key) // _ONE_WORD_BYTES * _ONE_WORD_BYTES
    hashed = _SEED
    for at in range(0, whole, _ONE_WORD_BYTES):
        hashed = _taken_in(hashed, int.from_bytes(key[at : at + _ONE_WORD_BYTES], "little"))
    for byte in key[whole:]:
        # Each remaining byte is added separately.
        hashed = _taken_in(hashed, byte | 0xFFFF_FF00 if signed and byte & 0x80 else byte)
    hashed = _finished(hashed ^ len(key))
    hashed = _finished(_spread(_mixed(hashed)) ^ _ONE_WORD_BYTES)
    # The one number without a positive counterpart stands for 0.
    if hashed == _ONE_SIGN:
        return 0
    return (_MASK + 1 - hashed if hashed & _ONE_SIGN else hashed) % count


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK


def _mixed(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _spread(hashed: int) -> int:
    return _rotated(hashed, 13) * 5 + 0xE6546B64 & _MASK


def _taken_in(hashed: int, word: int) -> int:
    return _spread(hashed ^ _mixed(word))


def _finished(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16
