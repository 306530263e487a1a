"""A batch of values without keys: the response to scans of a primary-key table.

i32 length after this field | u8 magic | i32 count | (i32 length of value | value)…, little endian,
where a value is an i16 schema id and a row.
"""

import struct
from collections.abc import Sequence

import numpy as np

from headwater.errors import CorruptBatchError
from headwater.rows.row_bytes import PADDING, Bytes, RowBytes, follow_chain, overlapping

MAGIC = 0
_HEAD = struct.Struct("<iBi")
_LENGTH = struct.Struct("<i")
_LENGTH_MAX = 2**31 - 1
_TOP_SHIFT = 24
# If every few bytes look like a length, walking is faster than sorting them out.
_PLACE_BYTES_MIN = 12
HEAD_BYTES = _HEAD.size


def value_batch_head(count: int, records_bytes: int) -> bytes:
    """Encode what comes before `count` values that take `records_bytes` with their lengths."""
    length = _HEAD.size - _LENGTH.size + records_bytes
    assert length <= _LENGTH_MAX
    return _HEAD.pack(length, MAGIC, count)


def value_batch(values: Sequence[bytes]) -> bytes:
    """Encode values as one batch."""
    records = b"".join(_LENGTH.pack(len(value)) + value for value in values)
    return value_batch_head(len(values), len(records)) + records


def read_value_batch(batch: memoryview) -> RowBytes:
    """Decode the values of a batch; a malformed one is an error."""
    if len(batch) < _HEAD.size:
        raise CorruptBatchError("A batch of values ends inside its header.")
    length, magic, count = _HEAD.unpack_from(batch)
    if magic != MAGIC:
        raise CorruptBatchError(f"A batch of values has the unknown version {magic}.")
    if length != len(batch) - _LENGTH.size:
        raise CorruptBatchError(
            f"A batch of values has {len(batch)} bytes, but its header says {length}."
        )
    data = np.zeros(len(batch) + PADDING, np.uint8)
    data[: len(batch)] = np.frombuffer(batch, np.uint8)
    values = _values(data, len(batch))
    if len(values) != count:
        raise CorruptBatchError(f"A batch has {len(values)} values, but its header says {count}.")
    return values


def _values(data: Bytes, end: int) -> RowBytes:
    # No value is longer than the batch, so the last byte of its length is seldom too large.
    tops = data[_HEAD.size + _LENGTH.size - 1 : end]
    places = np.flatnonzero(tops <= end >> _TOP_SHIFT) + _HEAD.size
    if len(places) * _PLACE_BYTES_MIN > end:
        return _walked(data, end)
    starts = places + _LENGTH.size
    ends = starts + overlapping(data, np.int32)[places].astype(np.int64)
    fits = (ends >= starts) & (ends <= end)
    starts, ends = starts[fits], ends[fits]
    found = follow_chain(starts - _LENGTH.size, ends, start=_HEAD.size, end=end)
    if found is None:
        return _walked(data, end)
    return RowBytes(data, starts[found], ends[found])


def _walked(data: Bytes, end: int) -> RowBytes:
    """Go from value to value, if too many bytes look like a length."""
    packed, position, places = data.tobytes(), _HEAD.size, []
    while position < end:
        places.append(position)
        (length,) = _LENGTH.unpack_from(packed, position)
        if not 0 <= length <= end - position - _LENGTH.size:
            raise CorruptBatchError(f"A value of {length} bytes does not fit into its batch.")
        position += _LENGTH.size + length
    bounds = np.array([*places, end], np.int64)
    return RowBytes(data, bounds[:-1] + _LENGTH.size, bounds[1:])
