"""The keys of rows, column by column, in a form in which equal keys have equal values.

Servers tell keys apart by their bytes. So do these columns: each is one of whole numbers or one
of bytes, floats are their bits (0.0 is not -0.0, NaN is itself), decimals their digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.arrow import arrow_type
from headwater.model.table import TableInfo
from headwater.rows.row_bytes import RowBytes, overlapping_words

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
