"""Unsigned LEB128 numbers, many at once: all bytes of a number in one machine word."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.rows.row_bytes import Longs, Mask, Words

INT_BYTES_MAX = 5
LONG_BYTES_MAX = 10
_WORD_BYTES = 8
_MORE = np.uint64(0x8080_8080_8080_8080)
# The same bits, but only in so many low bytes.
_MORE_BEFORE = np.array([int(_MORE) & (1 << 8 * count) - 1 for count in range(9)], np.uint64)
_ONE = np.uint64(1)
_BYTE = np.uint64(0xFF)
_MORE_OF_BYTE = np.uint64(0x80)
_REST_OF_BYTE = np.uint64(0x7F)
_WORD_BITS_USED = np.uint64(56)
# The eighth bit of the rest makes a second byte of 1, and marks the first.
_TWO_BYTES = np.uint64(0x180)
_EXPONENT_SHIFT = 52
_EXPONENT_BIAS = 1023
# Each step joins neighbours: 7-bit groups to 14, to 28, to 56 bits.
_FEW_JOINS = (
    (0x007F_007F_007F_007F, 0x7F00_7F00_7F00_7F00, 1),
    (0x0000_3FFF_0000_3FFF, 0x3FFF_0000_3FFF_0000, 2),
    (0x0000_0000_0FFF_FFFF, 0x0FFF_FFFF_0000_0000, 4),
)
_JOINS = tuple(tuple(np.uint64(each) for each in join) for join in _FEW_JOINS)
_FEW = 4
_MORE_OF_SHORT = np.uint32(0x8080_8080)
_SHORT_JOINS = tuple(
    tuple(np.uint32(int(each) & 0xFFFF_FFFF) for each in join) for join in _FEW_JOINS[:2]
)
# The marks of numbers that end in the first, second and third byte.
_SHORT_ENDS = tuple(np.uint32(0x80 << 8 * count) for count in range(3))


@dataclass(frozen=True, slots=True, eq=False)
class Varints:
    """Numbers as read, the positions after them, and which were too long."""

    values: Words
    ends: Longs
    too_long: Mask | None


@dataclass(frozen=True, slots=True, eq=False)
class SpreadVarints:
    """Numbers as written: up to 8 bytes in a word, and the bytes after those, if any."""

    heads: Words
    head_lengths: Longs
    tails: Words | None
    tail_lengths: Longs | None


def read_varints(words: Words, at: Longs, *, bytes_max: int) -> Varints:
    """Decode one number at each position."""
    word = words[at]
    if not np.count_nonzero(word & _MORE_OF_BYTE):
        return Varints(word & _REST_OF_BYTE, at + 1, None)
    if len(at) <= _FEW and (found := _read_few(word, at, bytes_max=bytes_max)) is not None:
        return found
    if (short := _read_short(word.astype(np.uint32), at)) is not None:
        return short
    stop = ~word & _MORE
    last = stop & (~stop + _ONE)
    # If no byte of the word is the last, `last` is 0 and the mask keeps all of them.
    word &= last ^ (last - _ONE)
    word &= ~_MORE
    for low, high, shift in _JOINS:
        word = word & low | (word & high) >> shift
    lengths = _byte_index(last >> np.uint64(7)) + 1
    if not last.all():
        _read_tails(words, at, word=word, lengths=lengths, long=np.flatnonzero(last == 0))
    too_long = lengths > bytes_max
    return Varints(word, at + lengths, too_long if np.count_nonzero(too_long) else None)


def _read_short(word: npt.NDArray[np.uint32], at: Longs) -> Varints | None:
    """Decode numbers of up to four bytes in half the width, unless one of them is longer."""
    last = ~word & _MORE_OF_SHORT
    if not last.all():
        return None
    last &= ~last + np.uint32(1)
    word &= last - np.uint32(1)
    word &= ~_MORE_OF_SHORT
    for low, high, shift in _SHORT_JOINS:
        joined = word & high
        joined >>= shift
        word &= low
        word |= joined
    ends = at + 1
    for ended in _SHORT_ENDS:
        ends += last > ended
    return Varints(word.astype(np.uint64), ends, None)


def _read_few(words: Words, at: Longs, *, bytes_max: int) -> Varints | None:
    """Decode as Python integers, which is faster for a row or two; long ones are left out."""
    values, ends = [], []
    for word, start in zip(words.tolist(), at.tolist(), strict=True):
        stop = ~word & int(_MORE)
        last = stop & -stop
        length = last.bit_length() >> 3
        if not 0 < length <= bytes_max:
            return None
        number = word & (last - 1) & ~int(_MORE)
        for low, high, shift in _FEW_JOINS:
            number = number & low | (number & high) >> shift
        values.append(number)
        ends.append(start + length)
    return Varints(np.array(values, np.uint64), np.array(ends, np.int64), None)


def _read_tails(words: Words, at: Longs, *, word: Words, lengths: Longs, long: Longs) -> None:
    """Add the ninth and tenth byte, in place."""
    tail = words[at[long] + _WORD_BYTES]
    ninth, tenth = tail & _BYTE, tail >> np.uint64(8) & _BYTE
    has_tenth = ninth >= _MORE_OF_BYTE
    word[long] |= (ninth & _REST_OF_BYTE) << _WORD_BITS_USED
    word[long] |= np.where(has_tenth, tenth << np.uint64(63), np.uint64(0))
    lengths[long] = 9 + has_tenth.astype(np.int64) + (has_tenth & (tenth >= _MORE_OF_BYTE))


def spread_varints(values: Words) -> SpreadVarints:
    """Lay out numbers as they are written."""
    if not len(values) or values.max() <= _REST_OF_BYTE:
        return SpreadVarints(values, np.ones(len(values), np.int64), None, None)
    word = values & ((_ONE << _WORD_BITS_USED) - _ONE)
    for low, high, shift in reversed(_JOINS):
        word = word & low | word << shift & high
    # Rounding stays within a byte, since the top bit of each is still free.
    last = _byte_index(word | _ONE)
    rest = values >> _WORD_BITS_USED
    tails = tail_lengths = None
    if rest.any():
        last = np.where(rest != 0, _WORD_BYTES, last)
        tails = rest & _REST_OF_BYTE | (rest >> np.uint64(7)) * _TWO_BYTES
        tail_lengths = (rest != 0).astype(np.int64) + (rest > _REST_OF_BYTE)
    word |= _MORE_BEFORE[last]
    return SpreadVarints(word, np.minimum(last + 1, _WORD_BYTES), tails, tail_lengths)


def _byte_index(word: Words) -> Longs:
    """Find the byte of the highest bit, which a float has in its exponent."""
    exponents = word.view(np.int64).astype(np.float64).view(np.int64) >> _EXPONENT_SHIFT
    return (exponents - _EXPONENT_BIAS) >> 3
