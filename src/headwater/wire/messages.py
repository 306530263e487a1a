"""Protobuf messages: decoded whole, or field by field without copying their bytes."""

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Protocol, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from headwater.errors import CorruptBatchError, RequestError

Part = bytes | memoryview
_SEVEN_BITS = 0x7F
_MORE = 0x80
_VARINT_BITS_MAX = 70
_NUMBER_MAX = (1 << 29) - 1
_SIGN_BIT = 1 << 63
_TWO_TO_64 = 1 << 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_COLUMN_BYTES = 4
_COLUMNS_MAX = 4096
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


def iterate_fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and value of each field: a signed integer, or its bytes.

    Fixed-length fields are skipped: no message that is read here has any.
    """
    position, end = 0, len(message)
    while position < end:
        tag, position = read_varint(message, position)
        number, kind = tag >> 3, tag & 7
        if not 0 < number <= _NUMBER_MAX:
            raise CorruptBatchError(f"A message has a field with the number {number}.")
        if kind == _VARINT:
            value, position = read_varint(message, position)
            yield number, value - _TWO_TO_64 if value & _SIGN_BIT else value
            continue
        if kind == _BYTES:
            length, position = read_varint(message, position)
        elif kind in _FIXED_BYTES:
            length = _FIXED_BYTES[kind]
        else:
            raise CorruptBatchError(f"A message has a field of the unknown kind {kind}.")
        if length > end - position:
            raise CorruptBatchError("A message ends inside a field.")
        if kind == _BYTES:
            yield number, message[position : position + length]
        position += length


def read_varint(message: memoryview, position: int) -> tuple[int, int]:
    """Decode the number at a position, and return where it ends."""
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
    """Encode a number, seven bits per byte; a negative one as its 64-bit complement."""
    value %= _TWO_TO_64
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number_field(number: int, value: int) -> bytes:
    """Encode an integer field."""
    return varint(number << 3 | _VARINT) + varint(value)


def bytes_head(number: int, size: int) -> bytes:
    """Encode what comes before the bytes of a field."""
    return varint(number << 3 | _BYTES) + varint(size)


# Whole messages.

M = TypeVar("M", bound=Message)


def encode_columns(ids: Sequence[int]) -> bytes:
    """Encode which columns are read."""
    return struct.pack(f"<{len(ids)}i", *ids)


def decode_columns(data: bytes) -> tuple[int, ...]:
    """Decode which columns are read; empty for all."""
    count, rest = divmod(len(data), _COLUMN_BYTES)
    if rest or count > _COLUMNS_MAX:
        raise CorruptBatchError(f"The columns of a request take {len(data)} bytes.")
    return struct.unpack(f"<{count}i", data)


def decode_message(kind: type[M], body: bytes, *, api: str) -> M:
    """Decode a message with all of its required fields; a malformed body is an error."""
    try:
        message = kind.FromString(body)
    except DecodeError as fault:
        raise CorruptBatchError(f"The body of {api} is malformed: {fault}.") from None
    if not message.IsInitialized():
        raise CorruptBatchError(f"The body of {api} lacks a required field.")
    return message


def answer_of(kind: type[M], body: Part) -> M:
    """Decode what a server answered, for answers whose only strings are error messages."""
    try:
        answer = kind()
        answer.ParseFromString(bytes(body))
    except DecodeError:
        raise _invalid(kind) from None
    return answer


def checked_answer_of(kind: type[M], body: Part) -> M:
    """Decode what a server answered; its strings are valid UTF-8."""
    answer = answer_of(kind, body)
    if any(isinstance(text, bytes) for text in texts_of(answer)):
        raise _invalid(kind)
    return answer


def _invalid(kind: type[Message]) -> CorruptBatchError:
    return CorruptBatchError(
        f"The server's answer is not a valid {kind.__name__}.",
        hint="Check that the address is that of a Headwater or Fluss server, and what lies between"
        " it and the client.",
    )


class _OfBucket(Protocol):
    """The part of a request about one bucket."""

    @property
    def bucket_id(self) -> int: ...

    @property
    def partition_id(self) -> int | None: ...


def refuse_repeated(buckets: Sequence[_OfBucket], *, api: str) -> None:
    """Reject a request that names a bucket twice: Apache Fluss would answer only one of the two."""
    if len(buckets) == 1:
        return
    if len({(each.partition_id, each.bucket_id) for each in buckets}) < len(buckets):
        raise RequestError(
            f"{api} names a bucket more than once.",
            hint="Put everything for one bucket into one entry.",
        )


# Strings in messages: protobuf returns invalid UTF-8 as bytes.

_TEXT, _MESSAGE = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE


def texts_of(message: Message) -> Iterator[str | bytes]:
    """Yield every string in a message, skipping fields without any; bytes mean invalid UTF-8."""
    for name in _places(message.DESCRIPTOR, _TEXT):
        value = getattr(message, name)
        if isinstance(value, str | bytes):
            yield value
        else:
            yield from value
    for name in _places(message.DESCRIPTOR, _MESSAGE):
        value = getattr(message, name)
        if not isinstance(value, Message):
            for each in value:
                yield from texts_of(each)
        # An absent message looks like an empty one, which never ends if types are recursive.
        elif message.HasField(name):
            yield from texts_of(value)


@cache
def _places(descriptor: Descriptor, kind: int) -> tuple[str, ...]:
    """Return the fields that are strings, or messages that contain strings."""
    fields = [field for field in descriptor.fields if field.type == kind]
    if kind == _MESSAGE:
        fields = [field for field in fields if _has_texts(field.message_type, frozenset())]
    return tuple(field.name for field in fields)


def _has_texts(descriptor: Descriptor | None, above: frozenset[str]) -> bool:
    if descriptor is None or descriptor.full_name in above:
        return False
    within = above | {descriptor.full_name}
    return any(
        field.type == _TEXT or (field.type == _MESSAGE and _has_texts(field.message_type, within))
        for field in descriptor.fields
    )
