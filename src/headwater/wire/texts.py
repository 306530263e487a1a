"""Texts in messages: where text is expected, protobuf hands on invalid UTF-8 as bytes."""

from collections.abc import Iterator
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

_TEXT, _MESSAGE = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE


def texts_of(message: Message) -> Iterator[str | bytes]:
    """Yield every text in a message, looking only where texts can be; bytes are not UTF-8."""
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
        # An absent message looks like an empty one, which has no end where types are recursive.
        elif message.HasField(name):
            yield from texts_of(value)


@cache
def _places(descriptor: Descriptor, kind: int) -> tuple[str, ...]:
    """Return the fields that are texts, or messages with texts somewhere inside."""
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
