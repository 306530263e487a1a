"""Murmur hashes of many byte strings at once, in the two ways that bucket functions use."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from headwater.rows.row_bytes import Longs, RowBytes, overlapping

Hashes = npt.NDArray[np.uint32]
# Lets the word after the last whole one enter hashes, of which so many bytes count.
Tail = Callable[[Hashes, Hashes, Longs], None]

# Few enough that all that is worked out of a block stays in the processor's cache.
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
# How much of the word after the last whole one counts, by the number of its bytes.
_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFF_FFFF], np.uint32)


def murmur_by_bytes(keys: RowBytes, *, seed: int, signed: bool = True) -> Hashes:
    """Hash strings, mixing each byte after the last whole word as a number of its own."""
    return _hash_all(keys, seed=seed, tail=_mix_signed_bytes if signed else _mix_unsigned_bytes)


def murmur3_32(keys: RowBytes, *, seed: int) -> Hashes:
    """Hash strings as the reference murmur3 of 32 bits does."""
    return _hash_all(keys, seed=seed, tail=_mix_tail_word)


def mix_word(words: Hashes) -> Hashes:
    """Scatter the bits of words before they enter a hash."""
    mixed = words * _FIRST
    _rotate(mixed, 15)
    mixed *= _SECOND
    return mixed


def take_in(hashes: Hashes, mixed: Hashes) -> None:
    """Let mixed words enter hashes, in place."""
    hashes ^= mixed
    spread(hashes)


def spread(hashes: Hashes) -> None:
    """Do the second half of a step, in place."""
    _rotate(hashes, 13)
    hashes *= _FIVE
    hashes += _STEP


def finish(hashes: Hashes) -> None:
    """Let every bit depend on every other, in place."""
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
    # With the longest first, those that have another word are always the first ones.
    order = np.argsort(_small(most - counts), kind="stable")
    hashes = np.empty(len(keys), np.uint32)
    hashes[order] = _hash_sorted(keys.take(order), counts[order], seed=seed, tail=tail)
    return hashes


def _small(numbers: Longs) -> npt.NDArray[np.integer]:
    """Return numbers in a type that is sorted by counting, where they are small enough."""
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
    # A rest without bytes is a word of 0, which leaves the hash as it is.
    hashes ^= mix_word(words & _TAIL_MASKS[rest])


def _rotate(hashes: Hashes, bits: int) -> None:
    low = hashes >> np.uint32(_WORD_BITS - bits)
    hashes <<= np.uint32(bits)
    hashes |= low
