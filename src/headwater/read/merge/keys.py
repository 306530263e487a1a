"""The keys of rows, column by column, and sets of keys that find the rows that have one of them.

Servers tell keys apart by their bytes. So do these columns: each is one of whole numbers or one
of bytes, floats are their bits (0.0 is not -0.0, NaN is itself), decimals their digits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.lake.keys import KeySet, last_of_each
from headwater.model.arrow import arrow_type
from headwater.model.table import TableInfo
from headwater.rows.compute import pc
from headwater.rows.row_bytes import RowBytes, overlapping_words

# Masks of NumPy as Arrow filters by them.

Mask: TypeAlias = npt.NDArray[np.bool_]


def as_filter(mask: Mask) -> pa.BooleanArray:
    """Return a mask as Arrow holds it, several times quicker than `pa.array` does."""
    packed = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(packed)])


# The keys of rows, column by column, in a form in which equal keys have equal values.
#
# Servers tell keys apart by their bytes. So do these columns: each is one of whole numbers or one
# of bytes, floats are their bits (0.0 is not -0.0, NaN is itself), decimals their digits.

Words: TypeAlias = npt.NDArray[np.uint64]
Columns: TypeAlias = tuple[pa.Array, ...]

_BYTES_OF_WORD = 8
_LENGTH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_WORD_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
# Few enough that all that is worked out of a block stays in the processor's cache.
_BLOCK_ROWS = 16_384
_WHOLE = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


@dataclass(frozen=True, slots=True)
class TableKey:
    """Say which columns tell the rows of a table apart."""

    names: tuple[str, ...]
    """The columns of the primary key."""
    distinct: tuple[str, ...]
    """Those that tell rows of one bucket apart: the partition is the same for all of them."""
    types: tuple[pa.DataType, ...]
    """The Arrow types of `distinct`."""

    @classmethod
    def of(cls, table: TableInfo) -> "TableKey":
        """Tell the key of a table."""
        distinct = table.descriptor.physical_primary_key
        return cls(
            table.schema.primary_key,
            distinct,
            tuple(arrow_type(table.schema.column(name).type) for name in distinct),
        )

    def columns(self, rows: pa.RecordBatch) -> Columns:
        """Return the keys of rows in comparable form."""
        return tuple(comparable(column) for column in self.values(rows))

    def values(self, rows: pa.RecordBatch) -> Columns:
        """Return the columns that tell rows apart, as the table holds them."""
        columns = (rows.column(name) for name in self.distinct)
        return tuple(map(as_type, columns, self.types))


def comparable(column: pa.Array) -> pa.Array:
    """Return a column of whole numbers or bytes that are equal where keys are."""
    kind = column.type
    if pa.types.is_signed_integer(kind) or pa.types.is_binary(kind):
        return column
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8())
    if pa.types.is_string(kind):
        return column.cast(pa.binary())
    if pa.types.is_decimal(kind):
        return column.view(pa.binary(kind.byte_width)).cast(pa.binary())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    return column.view(_WHOLE[kind.bit_width])


def numbers_of(columns: Columns) -> npt.NDArray[np.int64] | None:
    """Return keys as the numbers that they are; None if they are more, or no numbers."""
    if len(columns) != 1 or not pa.types.is_signed_integer(columns[0].type):
        return None
    numbers: npt.NDArray[np.int64] = columns[0].to_numpy().astype(np.int64, copy=False)
    return numbers


def hashes_of(columns: Columns) -> Words:
    """Return 64 bits for each key, the same ones for equal keys on every machine."""
    count = len(columns[0])
    found = np.empty(count, np.uint64)
    for start in range(0, count, _BLOCK_ROWS):
        end = min(start + _BLOCK_ROWS, count)
        hashes = np.zeros(end - start, np.uint64)
        for column in columns:
            _mix_in(hashes, column.slice(start, end - start))
        found[start:end] = hashes * _LENGTH_FACTOR
    return found


def joined(parts: Sequence[Columns]) -> Columns:
    """Put keys one after the other."""
    if len(parts) == 1:
        return parts[0]
    return tuple(pa.concat_arrays(columns) for columns in zip(*parts, strict=True))


def as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in a type of Arrow."""
    return column if column.type == kind else column.cast(kind)


def _mix_in(hashes: Words, column: pa.Array) -> None:
    """Let the values of a column enter hashes, in place."""
    if not pa.types.is_binary(column.type):
        _step(hashes, column.to_numpy().astype(np.int64, copy=False).view(np.uint64))
        return
    values = RowBytes.from_arrow(column)
    words, lengths = overlapping_words(values.data), values.lengths
    hashes ^= lengths.view(np.uint64) * _LENGTH_FACTOR
    shortest, longest = int(lengths.min()), int(lengths.max())
    for at in range(0, longest, _BYTES_OF_WORD):
        if shortest >= at + _BYTES_OF_WORD:
            _step(hashes, words[values.starts + at])
            continue
        rows = np.flatnonzero(lengths > at) if shortest <= at else slice(None)
        mask = _MASKS[np.minimum(lengths[rows] - at, _BYTES_OF_WORD)]
        mixed = hashes[rows]
        _step(mixed, words[values.starts[rows] + at] & mask)
        hashes[rows] = mixed


def _step(hashes: Words, words: Words) -> None:
    hashes ^= words
    hashes *= _WORD_FACTOR
    hashes ^= hashes >> _SHIFT


# A set of keys that finds the rows that have one of them, many rows at a time.

Numbers: TypeAlias = npt.NDArray[np.int64]

_WORD_BITS = 64
# One bit for each number between the lowest and the highest.
_MARKS_MAX = 64 * 1024 * 1024
_MARKS_PER_KEY = 512
# So many places for each key (a power of two) let one row of so many pass that has none of them.
_SIEVE_PLACES_BITS = 4
_SIEVE_BITS_MIN = 10
_SIEVE_BYTES_MAX = 64 * 1024 * 1024
_BYTE, _BIT, _ONE = np.uint64(3), np.uint8(7), np.uint8(1)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_ALIKE_MAX = 16
_HALF = np.uint64(32)

Find: TypeAlias = Callable[[Columns], Mask]


def finder(keys: Columns) -> Find:
    """Return what tells of every row whether its key is among distinct ones."""
    if not len(keys[0]):
        return _none
    numbers = numbers_of(keys)
    if numbers is None:
        hashed = HashedKeys.of(keys)
        # Somebody chose the keys so that they are alike.
        return hashed.mask if hashed.alike <= _ALIKE_MAX else KeySet.of(keys).mask
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < min(_MARKS_MAX, _MARKS_PER_KEY * len(numbers) + _BLOCK_ROWS):
        return MarkedNumbers.of(numbers, low=low, high=high).mask
    return SortedNumbers.of(numbers).mask


def _none(rows: Columns) -> Mask:
    return np.zeros(len(rows[0]), np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """Hold small numbers as one bit each, which stay in the processor's cache as bytes do not."""

    packed: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, marks: Mask) -> "Bits":
        """Hold the numbers of the places that are marked."""
        return cls(np.packbits(marks, bitorder="little"))

    def look(self, places: Words) -> Mask:
        """Tell of every number whether it is held; all have a place."""
        # None is beyond the end: with `wrap` NumPy does without a second look at that.
        found = self.packed.take((places >> _BYTE).view(np.int64), mode="wrap")
        found >>= places.astype(np.uint8) & _BIT
        found &= _ONE
        mask: Mask = found.view(np.bool_)
        return mask


@dataclass(frozen=True, slots=True, eq=False)
class MarkedNumbers:
    """Hold whole numbers that lie close together, so that a look costs no search."""

    low: int
    beyond: int
    """The first place after the highest number, which stands for all numbers that are not held."""
    bits: Bits

    @classmethod
    def of(cls, numbers: Numbers, *, low: int, high: int) -> "MarkedNumbers":
        """Mark numbers."""
        beyond = high - low + 1
        marks = np.zeros(beyond + 1, np.bool_)
        marks[numbers - low] = True
        return cls(low, beyond, Bits.of(marks))

    def mask(self, rows: Columns) -> Mask:
        """Tell of every row whether its key is held."""
        numbers = numbers_of(rows)
        assert numbers is not None
        found = np.empty(len(numbers), np.bool_)
        low, beyond = np.int64(self.low), np.uint64(self.beyond)
        for start in range(0, len(numbers), _BLOCK_ROWS):
            # A number below the lowest wraps around to a large one.
            places = np.subtract(numbers[start : start + _BLOCK_ROWS], low).view(np.uint64)
            np.minimum(places, beyond, out=places)
            found[start : start + len(places)] = self.bits.look(places)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Sieve:
    """Let few words pass but those that are held."""

    shift: np.uint64
    bits: Bits

    @classmethod
    def of(cls, words: Words) -> "Sieve":
        """Let words pass."""
        return cls.over(iter([words]), len(words), bytes_max=_SIEVE_BYTES_MAX)

    @classmethod
    def over(cls, words: Iterator[Words], count: int, *, bytes_max: int) -> "Sieve":
        """Let about so many words pass, which come one part after the other.

        It takes up to an eighth of the bytes, and all of them while it is made. The fewer they
        are, the more others pass.
        """
        wanted = count.bit_length() + _SIEVE_PLACES_BITS
        width = max(min(wanted, bytes_max.bit_length() - 1), _SIEVE_BITS_MIN)
        shift = np.uint64(_WORD_BITS - width)
        marks = np.zeros(1 << width, np.bool_)
        for some in words:
            marks[_mixed(some, shift).view(np.int64)] = True
        return cls(shift, Bits.of(marks))

    def passes(self, words: Words) -> Mask:
        """Tell of every word whether it may be held."""
        found = np.empty(len(words), np.bool_)
        for start in range(0, len(words), _BLOCK_ROWS):
            block = _mixed(words[start : start + _BLOCK_ROWS], self.shift)
            found[start : start + len(block)] = self.bits.look(block)
        return found

    def passing(self, words: Words) -> Numbers:
        """Return the places of words that may be held, in the order of the words."""
        places = np.flatnonzero(self.passes(words))
        return places[np.argsort(words[places])]


def _mixed(words: Words, shift: np.uint64) -> Words:
    """Return the first bits of words whose bits are scattered."""
    mixed = words * _FACTOR
    mixed ^= mixed >> _HALF
    mixed *= _FACTOR
    mixed >>= shift
    return mixed


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
        # What is looked for in order is found in the processor's cache.
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


# Where each key comes last.


def last_places(keys: Columns) -> Numbers:
    """Return the place at which each key comes last, ascending.

    Hashes are sorted with their places in one word each, which is several times quicker than a
    hash table. Where two keys are alike in all bits that are left for hashes, it takes that one.
    """
    count = len(keys[0])
    if numbers_of(keys) is not None or not count:
        return last_of_each(keys)
    bits = np.uint64(count.bit_length())
    words = hashes_of(keys) >> bits << bits
    words |= np.arange(count, dtype=np.uint64)
    words.sort()
    places: Numbers = (words & np.uint64((1 << int(bits)) - 1)).view(np.int64)
    words >>= bits
    comes_again = words[1:] == words[:-1]
    if not _are_equal(keys, places[:-1][comes_again], places[1:][comes_again]):
        return last_of_each(keys)
    last = places[np.append(~comes_again, [True])]
    last.sort()
    return last


def first_places(keys: Columns) -> Numbers:
    """Return the place at which each key comes first, ascending."""
    count = len(keys[0])
    backwards = pa.array(np.arange(count - 1, -1, -1))
    last = last_places(tuple(each.take(backwards) for each in keys))
    first: Numbers = (count - 1 - last)[::-1]
    return first


def _are_equal(keys: Columns, places: Numbers, others: Numbers) -> bool:
    """Tell whether all keys are the same as those in other places."""
    these, those = pa.array(places), pa.array(others)
    return all(
        pc.all(pc.equal(column.take(these), column.take(those)), min_count=0).as_py()
        for column in keys
    )
