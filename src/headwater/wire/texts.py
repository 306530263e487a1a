"""Texts in messages: protobuf hands on as bytes what is no UTF-8, where text is expected."""

from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

_TEXT, _MESSAGE = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE


def holds_only_texts(message: Message) -> bool:
    """Tell whether every text in a message is one, looking only where texts can be."""
    for name in _places(message.DESCRIPTOR, _TEXT):
        value = getattr(message, name)
        texts = (value,) if isinstance(value, str | bytes) else value
        if not all(isinstance(text, str) for text in texts):
            return False
    for name in _places(message.DESCRIPTOR, _MESSAGE):
        value = getattr(message, name)
        # An absent message looks like an empty one, which has no end where types are recursive.
        inner = (
            ((value,) if message.HasField(name) else ()) if isinstance(value, Message) else value
        )
        if not all(map(holds_only_texts, inner)):
            return False
    return True


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
