"""A batch of values without keys: what scans of a primary-key table answer.

i32 length after this field | u8 magic | i32 count | (i32 length of value | value)…, little endian,
where a value is an i16 schema id and a row.
"""

import struct
from collections.abc import Sequence

from headwater.errors import CorruptBatchError

MAGIC = 0
_HEAD = struct.Struct("<iBi")
_LENGTH = struct.Struct("<i")
_LENGTH_MAX = 2**31 - 1
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


def read_value_batch(batch: memoryview) -> list[bytes]:
    """Read the values of a batch, or say that it is malformed."""
    if len(batch) < _HEAD.size:
        raise CorruptBatchError("A batch of values ends inside its head.")
    length, magic, count = _HEAD.unpack_from(batch)
    if magic != MAGIC:
        raise CorruptBatchError(f"A batch of values has the unknown version {magic}.")
    if length != len(batch) - _LENGTH.size:
        raise CorruptBatchError(f"A batch of values has {len(batch)} bytes, but says {length}.")
    values, position = [], _HEAD.size
    for _ in range(count):
        value = _value_at(batch, position)
        values.append(value)
        position += _LENGTH.size + len(value)
    if count < 0 or position != len(batch):
        raise CorruptBatchError(f"A batch of values does not end with value {count}.")
    return values


def _value_at(batch: memoryview, position: int) -> bytes:
    start = position + _LENGTH.size
    if start > len(batch):
        raise CorruptBatchError("A batch of values ends inside a length.")
    (length,) = _LENGTH.unpack_from(batch, position)
    if not 0 <= length <= len(batch) - start:
        raise CorruptBatchError(f"A value of {length} bytes does not fit into its batch.")
    return bytes(batch[start : start + length])
