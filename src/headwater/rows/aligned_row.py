"""The aligned row: one 8-byte slot per field, and a tail for what does not fit into a slot.

A row starts with 8 reserved bits and one null bit per field, padded to whole 8-byte words. Text of
up to 7 bytes stays in its slot, marked by the slot's last byte; longer text, decimals above 18
digits and timestamps finer than milliseconds leave `offset << 32 | size` there. A timestamp keeps
the nanoseconds of its millisecond in place of the size.
"""

import struct
from collections.abc import Sequence
from decimal import Context, Decimal

import pyarrow as pa

from headwater.errors import CorruptBatchError
from headwater.model.predicate import Literal
from headwater.model.types import DECIMAL_PRECISION_MAX

NANOS_PER_MILLI = 1_000_000
_SLOT_BYTES = 8
_RESERVED_BITS = 8
_INLINE_BYTES_MAX = 7
_INLINE_MARK = 0x80
_COMPACT_DIGITS_MAX = 18
_DECIMAL_BYTES = 16
_COMPACT_UNITS = ("s", "ms")
_EXACT = Context(prec=DECIMAL_PRECISION_MAX)
_LONG = struct.Struct("<q")
_SCALARS: dict[pa.DataType, struct.Struct] = {
    pa.bool_(): struct.Struct("<?7x"),
    pa.int8(): struct.Struct("<b7x"),
    pa.int16(): struct.Struct("<h6x"),
    pa.int32(): struct.Struct("<i4x"),
    pa.int64(): _LONG,
    pa.float32(): struct.Struct("<f4x"),
    pa.float64(): struct.Struct("<d"),
    pa.date32(): struct.Struct("<i4x"),
    # Fluss stores times as milliseconds of the day, whatever the unit of the column.
    pa.time32("s"): struct.Struct("<i4x"),
    pa.time32("ms"): struct.Struct("<i4x"),
    pa.time64("us"): struct.Struct("<i4x"),
    pa.time64("ns"): struct.Struct("<i4x"),
}


def holds(data_type: pa.DataType) -> bool:
    """Tell whether an aligned row can hold values of this type."""
    return (
        data_type in _SCALARS
        or pa.types.is_string(data_type)
        or pa.types.is_decimal128(data_type)
        or pa.types.is_timestamp(data_type)
    )


def encode_row(types: Sequence[pa.DataType], values: Sequence[Literal]) -> bytes:
    """Encode one row of predicate literals."""
    nulls = bytearray(_null_bytes(len(types)))
    slots: list[bytes] = []
    tail = bytearray()
    tail_start = len(nulls) + _SLOT_BYTES * len(types)
    for index, (data_type, value) in enumerate(zip(types, values, strict=True)):
        if value is None:
            byte, bit = divmod(index + _RESERVED_BITS, 8)
            nulls[byte] |= 1 << bit
            slots.append(bytes(_SLOT_BYTES))
        else:
            slot, spilled = _encode(data_type, value, tail_at=tail_start + len(tail))
            slots.append(slot)
            tail += spilled
    return b"".join((nulls, *slots, tail))


def decode_row(types: Sequence[pa.DataType], row: bytes | memoryview) -> tuple[Literal, ...]:
    """Decode one row of predicate literals; nulls and unsupported types become None."""
    slots_start = _null_bytes(len(types))
    if len(row) < slots_start + _SLOT_BYTES * len(types):
        raise CorruptBatchError(f"An aligned row of {len(types)} fields has {len(row)} bytes.")
    values: list[Literal] = []
    for index, data_type in enumerate(types):
        byte, bit = divmod(index + _RESERVED_BITS, 8)
        is_null = row[byte] >> bit & 1 or not holds(data_type)
        slot_at = slots_start + _SLOT_BYTES * index
        values.append(None if is_null else _decode(data_type, memoryview(row), slot_at=slot_at))
    return tuple(values)


def _null_bytes(field_count: int) -> int:
    return (field_count + _RESERVED_BITS + 63) // 64 * 8


def _encode(data_type: pa.DataType, value: Literal, *, tail_at: int) -> tuple[bytes, bytes]:
    if (scalar := _SCALARS.get(data_type)) is not None:
        return scalar.pack(value), b""
    match value:
        case str():
            return _encode_text(value.encode(), tail_at=tail_at)
        case bytes():
            return _encode_text(value, tail_at=tail_at)
        case Decimal():
            return _encode_decimal(data_type, value, tail_at=tail_at)
        case int():
            return _encode_timestamp(data_type, value, tail_at=tail_at)
        case _:
            raise AssertionError(f"an aligned row cannot hold {data_type}")


def _encode_text(text: bytes, *, tail_at: int) -> tuple[bytes, bytes]:
    if len(text) > _INLINE_BYTES_MAX:
        return _pointer(tail_at, len(text)), text + bytes(-len(text) % _SLOT_BYTES)
    mark = bytes((_INLINE_MARK | len(text),))
    return text.ljust(_INLINE_BYTES_MAX, b"\0") + mark, b""


def _encode_decimal(data_type: pa.DataType, value: Decimal, *, tail_at: int) -> tuple[bytes, bytes]:
    unscaled = int(value.scaleb(data_type.scale, _EXACT))
    if data_type.precision <= _COMPACT_DIGITS_MAX:
        return _LONG.pack(unscaled), b""
    # The fewest bytes that keep the sign, as Java's BigInteger writes them.
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    size = magnitude.bit_length() // 8 + 1
    payload = unscaled.to_bytes(size, "big", signed=True)
    return _pointer(tail_at, size), payload.ljust(_DECIMAL_BYTES, b"\0")


def _encode_timestamp(data_type: pa.DataType, nanos: int, *, tail_at: int) -> tuple[bytes, bytes]:
    millis, rest = divmod(nanos, NANOS_PER_MILLI)
    if data_type.unit in _COMPACT_UNITS:
        return _LONG.pack(millis), b""
    return _pointer(tail_at, rest), _LONG.pack(millis)


def _pointer(offset: int, size: int) -> bytes:
    return _LONG.pack(offset << 32 | size)


def _decode(data_type: pa.DataType, row: memoryview, *, slot_at: int) -> Literal:
    if (scalar := _SCALARS.get(data_type)) is not None:
        value: Literal = scalar.unpack_from(row, slot_at)[0]
        return value
    if pa.types.is_string(data_type):
        return _decode_text(row, slot_at)
    if pa.types.is_decimal128(data_type):
        return _decode_decimal(data_type, row, slot_at=slot_at)
    return _decode_timestamp(data_type, row, slot_at=slot_at)


def _decode_text(row: memoryview, slot_at: int) -> str:
    mark = row[slot_at + _INLINE_BYTES_MAX]
    if mark & _INLINE_MARK:
        size = mark - _INLINE_MARK
        if size > _INLINE_BYTES_MAX:
            raise CorruptBatchError(f"A slot of an aligned row declares {size} bytes of text.")
        text = bytes(row[slot_at : slot_at + size])
    else:
        text = _tail(row, *_pointed(row, slot_at))
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise CorruptBatchError("Text in an aligned row contains invalid UTF-8.") from None


def _decode_decimal(data_type: pa.DataType, row: memoryview, *, slot_at: int) -> Decimal:
    if data_type.precision <= _COMPACT_DIGITS_MAX:
        unscaled = _LONG.unpack_from(row, slot_at)[0]
    else:
        offset, size = _pointed(row, slot_at)
        if not 1 <= size <= _DECIMAL_BYTES:
            raise CorruptBatchError(f"A decimal in an aligned row declares {size} bytes.")
        unscaled = int.from_bytes(_tail(row, offset, size), "big", signed=True)
    if abs(unscaled) >= 10**data_type.precision:
        raise CorruptBatchError(f"A decimal in an aligned row is too large for {data_type}.")
    return Decimal(unscaled).scaleb(-data_type.scale, _EXACT)


def _decode_timestamp(data_type: pa.DataType, row: memoryview, *, slot_at: int) -> int:
    if data_type.unit in _COMPACT_UNITS:
        return int(_LONG.unpack_from(row, slot_at)[0]) * NANOS_PER_MILLI
    offset, nanos = _pointed(row, slot_at)
    if nanos >= NANOS_PER_MILLI:
        raise CorruptBatchError(f"A timestamp in an aligned row declares {nanos} nanoseconds.")
    (millis,) = _LONG.unpack(_tail(row, offset, _LONG.size))
    return int(millis) * NANOS_PER_MILLI + nanos


def _pointed(row: memoryview, slot_at: int) -> tuple[int, int]:
    (packed,) = struct.unpack_from("<Q", row, slot_at)
    return packed >> 32, packed & 0xFFFFFFFF


def _tail(row: memoryview, offset: int, size: int) -> bytes:
    if offset + size > len(row):
        raise CorruptBatchError("An aligned row points outside of itself.")
    return bytes(row[offset : offset + size])
