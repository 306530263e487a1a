"""The fields of an encoded protobuf message, read and written without copying their bytes."""

from collections.abc import Iterator

from headwater.errors import CorruptBatchError

Part = bytes | memoryview
_SEVEN_BITS = 0x7F
_MORE = 0x80
_VARINT_BITS_MAX = 70
_NUMBER_MAX = (1 << 29) - 1
_SIGN_BIT = 1 << 63
_TWO_TO_64 = 1 << 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


def iterate_fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field: a signed number, or the bytes it holds.

    Fields of a fixed length are left out: no message that is read here has any, and their bytes
    are no message.
    """
    position, end = 0, len(message)
    while position < end:
        tag, position = read_varint(message, position)
        number, kind = tag >> 3, tag & 7
        if not 0 < number <= _NUMBER_MAX:
            raise CorruptBatchError(f"A message holds a field of the number {number}.")
        if kind == _VARINT:
            value, position = read_varint(message, position)
            yield number, value - _TWO_TO_64 if value & _SIGN_BIT else value
            continue
        if kind == _BYTES:
            length, position = read_varint(message, position)
        elif kind in _FIXED_BYTES:
            length = _FIXED_BYTES[kind]
        else:
            raise CorruptBatchError(f"A message holds a field of the unknown kind {kind}.")
        if length > end - position:
            raise CorruptBatchError("A message ends inside a field.")
        if kind == _BYTES:
            yield number, message[position : position + length]
        position += length


def read_varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return the number at a position, and where it ends."""
    value = shift = 0
    while shift < _VARINT_BITS_MAX and position < len(message):
        byte = message[position]
        position += 1
        value |= (byte & _SEVEN_BITS) << shift
        if byte < _MORE:
            return value % _TWO_TO_64, position
        shift += 7
    raise CorruptBatchError("A message ends inside a number.")


def varint(value: int) -> bytes:
    """Encode a number, seven bits a byte; a negative one as its 64-bit complement."""
    value %= _TWO_TO_64
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number_field(number: int, value: int) -> bytes:
    """Encode a field that holds a number."""
    return varint(number << 3 | _VARINT) + varint(value)


def bytes_head(number: int, size: int) -> bytes:
    """Encode what comes before the bytes of a field that holds bytes."""
    return varint(number << 3 | _BYTES) + varint(size)
