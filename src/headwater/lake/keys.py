"""Rows by key, a whole column at a time: the last row of each key, and the rows of given keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.rows.compute import pc

KeyColumn: TypeAlias = pa.Array | pa.ChunkedArray
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WORD_BITS = 63
_MARKS_MAX = 64 * 1024 * 1024
_BITS_OF_FLOAT = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def last_of_each(keys: Sequence[KeyColumn]) -> Positions:
    """Find the position of the last row of each key, ascending; keys contain no nulls."""
    if len(keys) == 1 and (numbers := _numbers(keys[0])) is not None:
        found = _last_of_numbers(numbers)
        if found is not None:
            return found
    codes, count = _codes(keys[0])
    for column in keys[1:]:
        further, width = _codes(column)
        # Both are below 2^31, so their product does not overflow; renumbering keeps it so.
        codes, count = _codes(pa.array(codes * width + further))
    last = np.empty(count, np.int64)
    # If an index repeats, NumPy keeps the value that was assigned last.
    last[codes] = np.arange(len(codes), dtype=np.int64)
    last.sort()
    return last


def in_key_order(keys: Sequence[KeyColumn]) -> Positions:
    """Sort row positions by key, ascending and stable."""
    names = [f"k{index}" for index in range(len(keys))]
    order = pc.sort_indices(
        pa.table(list(keys), names=names), sort_keys=[(name, "ascending") for name in names]
    )
    positions: Positions = order.to_numpy().astype(np.int64)
    return positions


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """Distinct keys, to find the rows that have one of them."""

    values: tuple[pa.Array, ...]
    """The distinct values of each key column."""
    pairs: tuple[pa.Int64Array, ...]
    """For each column but the first: which of its values follow which key prefixes."""
    marks: "Marks | None" = None
    """For a single column of whole numbers that lie close together."""

    @classmethod
    def of(cls, keys: Sequence[KeyColumn]) -> "KeySet":
        """Collect the keys of some rows, none of which is null."""
        if len(keys) == 1 and (numbers := _numbers(keys[0])) is not None:
            marks = Marks.of(numbers)
            if marks is not None:
                return cls((), (), marks)
        values = tuple(pc.unique(_comparable(column)) for column in keys)
        pairs: list[pa.Int64Array] = []
        places = _places(keys[0], values[0])
        for column, known in zip(keys[1:], values[1:], strict=True):
            paired = _paired(places, _places(column, known), width=len(known))
            pairs.append(pc.unique(paired))
            places = _places(paired, pairs[-1])
        return cls(values, tuple(pairs))

    def mask(self, keys: Sequence[KeyColumn]) -> Mask:
        """Tell for every row whether its key is one of these."""
        if self.marks is not None and (numbers := _numbers(keys[0])) is not None:
            return self.marks.mask(numbers)
        found = _places(keys[0], self.values[0])
        for column, known, pairs in zip(keys[1:], self.values[1:], self.pairs, strict=True):
            paired = _paired(found, _places(column, known), width=len(known))
            found = _places(paired, pairs)
        mask: Mask = pc.is_valid(found).to_numpy(zero_copy_only=False)
        return mask


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Whole numbers as one flag each, so that a lookup needs no search."""

    low: int
    held: Mask
    """Whether each number from the lowest to the highest is held."""

    @classmethod
    def of(cls, numbers: Positions) -> "Marks | None":
        """Flag the numbers; None if they lie too far apart for that."""
        if not len(numbers):
            return cls(0, np.zeros(1, np.bool_))
        low, high = int(numbers.min()), int(numbers.max())
        if high - low >= _MARKS_MAX:
            return None
        held = np.zeros(high - low + 1, np.bool_)
        held[numbers - low] = True
        return cls(low, held)

    def mask(self, numbers: Positions) -> Mask:
        """Tell for every number whether it is held."""
        high = self.low + len(self.held) - 1
        mask: Mask = (numbers >= self.low) & (numbers <= high)
        # Numbers out of range look at the nearest flag, and the mask excludes them.
        mask &= self.held[np.clip(numbers, self.low, high) - self.low]
        return mask


def _numbers(column: KeyColumn) -> Positions | None:
    """The values of a column as whole numbers; None for other types."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    elif not pa.types.is_signed_integer(kind):
        return None
    numbers: Positions = column.to_numpy().astype(np.int64)
    return numbers


def _last_of_numbers(numbers: Positions) -> Positions | None:
    """Sort numbers with their positions in one word each; None if they do not fit into a word.

    This is several times faster than a hash table, which misses the cache at every row.
    """
    if not len(numbers):
        return numbers
    low, bits = int(numbers.min()), len(numbers).bit_length()
    if (int(numbers.max()) - low).bit_length() + bits > _WORD_BITS:
        return None
    words = (numbers - low) << bits | np.arange(len(numbers))
    words.sort()
    is_last = np.append(np.diff(words >> bits) != 0, [True])
    last: Positions = words[is_last] & ((1 << bits) - 1)
    last.sort()
    return last


def _codes(column: KeyColumn) -> tuple[Positions, int]:
    """Number the distinct values of a column from 0; return the codes and how many there are."""
    encoded = pc.dictionary_encode(_comparable(column))
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    if not chunks:
        return np.empty(0, np.int64), 0
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks]).astype(np.int64)
    # All chunks share one dictionary, since one hash table made them.
    return codes, len(chunks[-1].dictionary)


def _places(column: KeyColumn, known: pa.Array) -> pa.Int64Array:
    """Find each value among known ones; null if it is not among them."""
    places = pc.index_in(_comparable(column), value_set=known, skip_nulls=True).cast(pa.int64())
    return places.combine_chunks() if isinstance(places, pa.ChunkedArray) else places


def _paired(places: pa.Int64Array, further: pa.Int64Array, *, width: int) -> pa.Int64Array:
    return pc.add(pc.multiply(places, pa.scalar(width, pa.int64())), further)


def _comparable(column: KeyColumn) -> KeyColumn:
    """Floats as their bits, since keys are compared by their bytes: 0.0 is not -0.0."""
    bits = _BITS_OF_FLOAT.get(column.type)
    if bits is None:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    return column.view(bits)
