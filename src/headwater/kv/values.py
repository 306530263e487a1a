"""Values as clients read them: the schema id and the row, framed for the wire in place."""

import numpy as np
import numpy.typing as npt

from headwater.kv.heap import Records
from headwater.rows.row_bytes import RowBytes

SCHEMA_ID_BYTES = 2
_LENGTH_BYTES = 4


def values_of(records: Records) -> RowBytes:
    """Return the values of records that were read; the bytes before them are free."""
    rows = records.rows
    data = rows.data
    data[rows.starts - 2] = records.schema_ids & 0xFF
    data[rows.starts - 1] = records.schema_ids >> 8
    return RowBytes(data, rows.starts - SCHEMA_ID_BYTES, rows.ends)


def with_lengths(values: RowBytes) -> RowBytes:
    """Put the length of each value, four bytes, before it."""
    starts, lengths = values.starts - _LENGTH_BYTES, values.lengths
    for byte in range(_LENGTH_BYTES):
        values.data[starts + byte] = lengths >> 8 * byte & 0xFF
    return RowBytes(values.data, starts, values.ends)


def framed(values: RowBytes, *, outer_tag: int, inner_tag: int) -> RowBytes:
    """Put before each value what makes it a field of a message that is itself a field.

    That is `outer tag | length | inner tag | length | value`, with lengths as varints.
    """
    inner = _with_head(values, inner_tag)
    return _with_head(inner, outer_tag)


def _with_head(values: RowBytes, tag: int) -> RowBytes:
    lengths = values.lengths
    sizes = _varint_sizes(lengths)
    starts = values.starts - sizes - 1
    values.data[starts] = tag
    for byte in range(int(sizes.max(initial=0))):
        rows = slice(None) if byte == 0 else np.flatnonzero(sizes > byte)
        more = np.where(sizes[rows] > byte + 1, 0x80, 0)
        values.data[starts[rows] + 1 + byte] = lengths[rows] >> 7 * byte & 0x7F | more
    return RowBytes(values.data, starts, values.ends)


def _varint_sizes(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    sizes = np.ones(len(numbers), np.int64)
    for bits in (7, 14, 21, 28):
        sizes += numbers >= 1 << bits
    return sizes
