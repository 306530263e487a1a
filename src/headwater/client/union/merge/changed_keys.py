"""A set of keys that finds the rows that have one of them, many rows at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.union.merge.keys import Columns, Words, hashes_of, numbers_of

Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]

_WORD_BITS = 64
# One byte for each number between the lowest and the highest: a look costs no search.
_MARKS_MAX = 64 * 1024 * 1024
_MARKS_PER_KEY = 256
_SIEVE_BITS_MIN, _SIEVE_BITS_MAX = 10, 24
# So many places for each key let one row of so many through that has none of them.
_SIEVE_PLACES_BITS = 4
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_BLOCK_ROWS = 16_384

Find: TypeAlias = Callable[[Columns], Mask]


def finder(keys: Columns) -> Find:
    """Return what tells of every row whether its key is among distinct ones."""
    if not len(keys[0]):
        return _none
    numbers = numbers_of(keys)
    if numbers is None:
        return HashedKeys.of(keys).mask
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < min(_MARKS_MAX, _MARKS_PER_KEY * len(numbers) + _BLOCK_ROWS):
        return MarkedNumbers.of(numbers, low=low, high=high).mask
    return SortedNumbers.of(numbers).mask


def _none(rows: Columns) -> Mask:
    return np.zeros(len(rows[0]), np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class MarkedNumbers:
    """Hold whole numbers that lie close together, as one mark each."""

    low: int
    marks: Mask
    """Whether each number from the lowest on is held; the last mark stands for all others."""

    @classmethod
    def of(cls, numbers: Numbers, *, low: int, high: int) -> "MarkedNumbers":
        """Mark numbers."""
        marks = np.zeros(high - low + 2, np.bool_)
        marks[numbers - low] = True
        return cls(low, marks)

    def mask(self, rows: Columns) -> Mask:
        """Tell of every row whether its key is held."""
        numbers = numbers_of(rows)
        assert numbers is not None
        found = np.empty(len(numbers), np.bool_)
        beyond = np.uint64(len(self.marks) - 1)
        # A number below the lowest wraps around to a large one.
        low = np.int64(self.low)
        for start in range(0, len(numbers), _BLOCK_ROWS):
            block = numbers[start : start + _BLOCK_ROWS]
            places = np.subtract(block, low).view(np.uint64)
            np.minimum(places, beyond, out=places)
            self.marks.take(
                places.view(np.int64), out=found[start : start + len(block)], mode="clip"
            )
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Sieve:
    """Let few pass but those words that are held."""

    shift: np.uint64
    marks: Mask

    @classmethod
    def of(cls, words: Words) -> "Sieve":
        """Let words pass."""
        wanted = len(words).bit_length() + _SIEVE_PLACES_BITS
        bits = min(max(wanted, _SIEVE_BITS_MIN), _SIEVE_BITS_MAX)
        shift = np.uint64(_WORD_BITS - bits)
        marks = np.zeros(1 << bits, np.bool_)
        marks[(words * _FACTOR) >> shift] = True
        return cls(shift, marks)

    def passing(self, words: Words) -> Numbers:
        """Return the places of the words that may be held, and of all that are."""
        found = np.empty(len(words), np.bool_)
        for start in range(0, len(words), _BLOCK_ROWS):
            block = words[start : start + _BLOCK_ROWS] * _FACTOR
            block >>= self.shift
            self.marks.take(
                block.view(np.int64), out=found[start : start + len(block)], mode="clip"
            )
        return np.flatnonzero(found)


@dataclass(frozen=True, slots=True, eq=False)
class SortedNumbers:
    """Hold whole numbers that lie far apart."""

    numbers: Numbers
    sieve: Sieve

    @classmethod
    def of(cls, numbers: Numbers) -> "SortedNumbers":
        """Hold numbers."""
        return cls(np.sort(numbers), Sieve.of(numbers.view(np.uint64)))

    def mask(self, rows: Columns) -> Mask:
        """Tell of every row whether its key is held."""
        numbers = numbers_of(rows)
        assert numbers is not None
        found = np.zeros(len(numbers), np.bool_)
        passing = self.sieve.passing(numbers.view(np.uint64))
        wanted = numbers[passing]
        places = np.searchsorted(self.numbers, wanted)
        np.minimum(places, len(self.numbers) - 1, out=places)
        found[passing] = self.numbers[places] == wanted
        return found


@dataclass(frozen=True, slots=True, eq=False)
class HashedKeys:
    """Hold keys of any form, by a hash that leads to them."""

    keys: Columns
    """In the order of their hashes."""
    hashes: Words
    sieve: Sieve
    alike: int
    """How many keys have the same hash, at most."""

    @classmethod
    def of(cls, keys: Columns) -> "HashedKeys":
        """Hold distinct keys."""
        hashes = hashes_of(keys)
        order = np.argsort(hashes)
        hashes = hashes[order]
        begins = np.flatnonzero(np.append([True], hashes[1:] != hashes[:-1]))
        alike = int(np.diff(np.append(begins, len(hashes))).max())
        taken = pa.array(order)
        return cls(tuple(each.take(taken) for each in keys), hashes, Sieve.of(hashes), alike)

    def mask(self, rows: Columns) -> Mask:
        """Tell of every row whether its key is held."""
        hashes = hashes_of(rows)
        found = np.zeros(len(hashes), np.bool_)
        passing = self.sieve.passing(hashes)
        places = np.searchsorted(self.hashes, hashes[passing])
        for _ in range(self.alike):
            is_there = places < len(self.hashes)
            passing, places = passing[is_there], places[is_there]
            is_there = self.hashes[places] == hashes[passing]
            passing, places = passing[is_there], places[is_there]
            found[passing] |= self._equal(rows, passing, places)
            places = places + 1
        return found

    def _equal(self, rows: Columns, these: Numbers, places: Numbers) -> Mask:
        """Tell whether the keys of rows are those in some places."""
        equal = np.ones(len(these), np.bool_)
        wanted, held = pa.array(these), pa.array(places)
        for column, keys in zip(rows, self.keys, strict=True):
            same = pc.equal(column.take(wanted), keys.take(held))
            equal &= same.to_numpy(zero_copy_only=False)
        return equal
