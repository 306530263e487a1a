"""Paimon's binary rows: how manifests hold keys, partitions and bounds of columns.

A row is an aligned row behind its number of fields, four bytes with the largest first.
"""

import struct
from collections.abc import Sequence

import pyarrow as pa

from headwater.errors import CorruptFileError
from headwater.model.predicate import Literal
from headwater.rows.aligned_row import decode_row, encode_row

_COUNT = struct.Struct(">i")
_SLOT_BYTES = 8
_RESERVED_BITS = 8
_INLINE_MARK = 0x80

EMPTY_ROW = _COUNT.pack(0) + bytes(_SLOT_BYTES)
"""A row without fields."""


def to_binary_row(types: Sequence[pa.DataType], values: Sequence[Literal]) -> bytes:
    """Write literals of these types as a row."""
    return _COUNT.pack(len(types)) + encode_row(types, values)


def from_binary_row(types: Sequence[pa.DataType], data: bytes) -> tuple[Literal, ...]:
    """Read the literals of a row; None for a null and for what a row cannot hold."""
    if not types:
        return ()
    if len(data) < _COUNT.size or _COUNT.unpack_from(data)[0] != len(types):
        raise CorruptFileError(f"A row of a manifest does not have {len(types)} fields.")
    row = data[_COUNT.size :]
    return tuple(
        _bytes_at(row, index, count=len(types)) if is_bytes(data_type) else value
        for index, (data_type, value) in enumerate(zip(types, decode_row(types, row), strict=True))
    )


def is_bytes(data_type: pa.DataType) -> bool:
    """Tell whether values are bytes, of any or of a fixed length."""
    return bool(pa.types.is_binary(data_type) or pa.types.is_fixed_size_binary(data_type))


def _bytes_at(row: bytes, index: int, *, count: int) -> bytes | None:
    byte, bit = divmod(index + _RESERVED_BITS, 8)
    if row[byte] >> bit & 1:
        return None
    slot = (count + _RESERVED_BITS + 63) // 64 * 8 + _SLOT_BYTES * index
    mark = row[slot + _SLOT_BYTES - 1]
    if mark & _INLINE_MARK:
        return row[slot : slot + mark - _INLINE_MARK]
    (packed,) = struct.unpack_from("<Q", row, slot)
    return row[packed >> 32 : (packed >> 32) + (packed & 0xFFFFFFFF)]
