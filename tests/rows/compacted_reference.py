"""A slow and plain codec of compacted rows, one value at a time, to compare the real one with.

Values are what the strategies draw: whole numbers for times and timestamps, in the column's unit.
"""

import struct
from decimal import Decimal

from headwater.model.arrow import arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    MapType,
    RowType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)

FIXED = {
    BooleanType: "<?",
    TinyIntType: "<b",
    SmallIntType: "<h",
    FloatType: "<f",
    DoubleType: "<d",
}
SLOTS = {**FIXED, IntType: "<i", DateType: "<i", TimeType: "<i", BigIntType: "<q"}
STAMPS = (TimestampType, TimestampLtzType)
STRINGS = (StringType, CharType, BytesType, BinaryType)
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def write_row(types, values, *, null_bits=True) -> bytes:
    bits = 0
    for index, value in enumerate(values):
        bits |= (value is None) << index
    head = bits.to_bytes((len(types) + 7) // 8, "little") if null_bits else b""
    pairs = zip(types, values, strict=True)
    return head + b"".join(write_field(t, v) for t, v in pairs if v is not None)


def write_field(data_type, value) -> bytes:
    if type(data_type) in FIXED:
        return struct.pack(FIXED[type(data_type)], value)
    if isinstance(data_type, IntType | DateType):
        return varint(value % 2**32)
    if isinstance(data_type, TimeType):
        return varint(millis_and_nanos(data_type, value)[0])
    if isinstance(data_type, BigIntType):
        return varint(value % 2**64)
    if isinstance(data_type, DecimalType) and data_type.precision <= 18:
        return varint(unscaled(data_type, value) % 2**64)
    if isinstance(data_type, STAMPS):
        millis, nanos = millis_and_nanos(data_type, value)
        rest = varint(nanos) if data_type.precision > 3 else b""
        return varint(millis % 2**64) + rest
    content = write_content(data_type, value)
    return varint(len(content)) + content


def write_content(data_type, value) -> bytes:
    match data_type:
        case StringType() | CharType():
            return value.encode()
        case DecimalType():
            number = unscaled(data_type, value)
            size = next(n for n in range(1, 17) if -(2 ** (8 * n - 1)) <= number < 2 ** (8 * n - 1))
            return number.to_bytes(size, "big", signed=True)
        case ArrayType(element=element):
            return write_array(element, value)
        case MapType():
            keys = write_array(data_type.key, [key for key, _ in value])
            values = write_array(data_type.value, [item for _, item in value])
            return struct.pack("<i", len(keys)) + keys + values
        case RowType(fields=fields):
            return write_row([f.type for f in fields], [value[f.name] for f in fields])
        case _:
            return value


def write_array(element, values) -> bytes:
    bits = sum((value is None) << index for index, value in enumerate(values))
    head = struct.pack("<i", len(values)) + bits.to_bytes((len(values) + 31) // 32 * 4, "little")
    width = struct.calcsize(SLOTS.get(type(element), "<q"))
    fixed = len(head) + width * len(values)
    slots, tail = b"", b""
    for value in values:
        slot, spilled = write_slot(element, value, at=fixed + -fixed % 8 + len(tail), width=width)
        slots += slot
        tail += spilled + bytes(-len(spilled) % 8)
    return head + slots + bytes(-fixed % 8) + tail


def write_slot(element, value, *, at, width) -> tuple[bytes, bytes]:
    if value is None:
        return bytes(width), b""
    if isinstance(element, TimeType):
        value = millis_and_nanos(element, value)[0]
    if type(element) in SLOTS:
        return struct.pack(SLOTS[type(element)], value), b""
    if isinstance(element, STAMPS):
        millis, nanos = millis_and_nanos(element, value)
        if element.precision <= 3:
            return struct.pack("<q", millis), b""
        return struct.pack("<II", nanos, at), struct.pack("<q", millis)
    if isinstance(element, DecimalType) and element.precision <= 18:
        return struct.pack("<q", unscaled(element, value)), b""
    content = write_content(element, value)
    if isinstance(element, STRINGS) and len(content) <= 7:
        return content.ljust(7, b"\0") + bytes([0x80 | len(content)]), b""
    kept = content.ljust(16, b"\0") if isinstance(element, DecimalType) else content
    return struct.pack("<II", len(content), at), kept


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def unscaled(data_type, value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    assert exponent == -data_type.scale
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def millis_and_nanos(data_type, value: int) -> tuple[int, int]:
    return divmod(value * NANOS[arrow_type(data_type).unit], 10**6)


class Reader:
    """Read one row after the layout, without any check."""

    def __init__(self, row: bytes) -> None:
        self.row = row
        self.at = 0

    def take(self, size: int) -> bytes:
        self.at += size
        return self.row[self.at - size : self.at]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def signed(self, bits: int) -> int:
        number = self.varint() % 2**bits
        return number - 2**bits if number >= 2 ** (bits - 1) else number


def read_row(types, row: bytes) -> list[object]:
    reader = Reader(row)
    bits = int.from_bytes(reader.take((len(types) + 7) // 8), "little")
    return [None if bits >> i & 1 else read_field(t, reader) for i, t in enumerate(types)]


def read_field(data_type, reader: Reader) -> object:
    if (kind := FIXED.get(type(data_type))) is not None:
        return struct.unpack(kind, reader.take(struct.calcsize(kind)))[0]
    if isinstance(data_type, IntType | DateType):
        return reader.signed(32)
    if isinstance(data_type, TimeType):
        return in_unit(data_type, reader.signed(32), 0)
    if isinstance(data_type, STAMPS):
        millis = reader.signed(64)
        return in_unit(data_type, millis, reader.varint() if data_type.precision > 3 else 0)
    if isinstance(data_type, BigIntType):
        return reader.signed(64)
    if isinstance(data_type, DecimalType) and data_type.precision <= 18:
        return scaled(data_type, reader.signed(64))
    return read_content(data_type, reader.take(reader.varint()))


def read_content(data_type, content: bytes) -> object:
    match data_type:
        case StringType() | CharType():
            return content.decode()
        case DecimalType():
            return scaled(data_type, int.from_bytes(content, "big", signed=True))
        case ArrayType(element=element):
            return read_array(element, content)
        case MapType(key=key, value=value):
            end = 4 + struct.unpack_from("<i", content)[0]
            keys, items = read_array(key, content[4:end]), read_array(value, content[end:])
            return list(zip(keys, items, strict=True))
        case RowType(fields=fields):
            values = read_row([f.type for f in fields], content)
            return {f.name: value for f, value in zip(fields, values, strict=True)}
        case _:
            return content


def read_array(element, array: bytes) -> list[object]:
    (count,) = struct.unpack_from("<i", array)
    width = struct.calcsize(SLOTS.get(type(element), "<q"))
    slots_at = 4 + (count + 31) // 32 * 4
    bits = int.from_bytes(array[4:slots_at], "little")
    return [
        None if bits >> i & 1 else read_slot(element, array, at=slots_at + i * width)
        for i in range(count)
    ]


def read_slot(element, array: bytes, *, at: int) -> object:
    if (kind := SLOTS.get(type(element))) is not None:
        (value,) = struct.unpack_from(kind, array, at)
        return in_unit(element, value, 0) if isinstance(element, TimeType) else value
    low, high = struct.unpack_from("<II", array, at)
    (word,) = struct.unpack_from("<q", array, at)
    if isinstance(element, STAMPS):
        if element.precision <= 3:
            return in_unit(element, word, 0)
        return in_unit(element, struct.unpack_from("<q", array, high)[0], low)
    if isinstance(element, DecimalType) and element.precision <= 18:
        return scaled(element, word)
    if array[at + 7] & 0x80:
        return read_content(element, array[at : at + (array[at + 7] & 0x7F)])
    return read_content(element, array[high : high + low])


def in_unit(data_type, millis: int, nanos: int) -> int:
    return (millis * 10**6 + nanos) // NANOS[arrow_type(data_type).unit]


def scaled(data_type, number: int) -> Decimal:
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -data_type.scale))
