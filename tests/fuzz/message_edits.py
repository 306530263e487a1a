"""Changes of protobuf messages, field by field."""

from collections.abc import Callable, Iterator, Sequence

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from tests.fuzz.edits import Edit, edited

_INTS = (0, 1, -1, 2, 3, 5, 7, 100, 1024, 2**31 - 1, -(2**31), 4, 6, 8, 10, 1 << 20)
_LONGS = (*_INTS, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 1_700_000_000_000)
_FLOATS = (0.0, -0.0, 1.5, 1e308, float("inf"), float("nan"))
_TEXTS = (
    "",
    ".",
    "..",
    "a/b",
    "../../etc",
    "a\0b",
    "x" * 300,
    "é",
    "__x",
    "fluss",
    "rows",
    "file://[",
    "table.log.ttl",
    "-1 d",
    "99999999999999999999 d",
    "x$y",
)
_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: _INTS,
    FieldDescriptor.CPPTYPE_INT64: _LONGS,
    FieldDescriptor.CPPTYPE_UINT32: tuple(number & 0x7FFFFFFF for number in _INTS),
    FieldDescriptor.CPPTYPE_UINT64: tuple(number & (2**63 - 1) for number in _LONGS),
    FieldDescriptor.CPPTYPE_FLOAT: _FLOATS,
    FieldDescriptor.CPPTYPE_DOUBLE: _FLOATS,
    FieldDescriptor.CPPTYPE_BOOL: (True, False),
}
_COPIES_MAX = 40

Inner = Callable[[str, bytes, Edit], bytes]
"""Changes the bytes of a field by its name."""


def message_edited(
    kind: type[Message], data: bytes, edits: Sequence[Edit], *, inner: Inner
) -> bytes:
    """Change fields of a message; what is none is changed as bytes."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        return edited(data, edits)
    raw = [edit for edit in edits if edit[0] >= 56]
    for edit in edits:
        if edit[0] < 56:
            _change(message, edit, inner)
    return edited(message.SerializePartialToString(), raw)


def _change(message: Message, edit: Edit, inner: Inner) -> None:
    kind, place, _ = edit
    places = list(_places(message))
    if not places:
        return
    holder, field = places[place % len(places)]
    if kind % 8 == 0:
        holder.ClearField(field.name)
    elif _is_repeated(field):
        _change_list(holder, field, edit, inner)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        getattr(holder, field.name).SetInParent()
    else:
        setattr(holder, field.name, _new(getattr(holder, field.name), field, edit, inner))


def _change_list(holder: Message, field: FieldDescriptor, edit: Edit, inner: Inner) -> None:
    kind, place, value = edit
    items = getattr(holder, field.name)
    is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    if is_message and (not items or kind % 8 == 1):
        items.add()
    elif is_message:
        copies = _COPIES_MAX if value % 16 == 0 else 1
        items.extend([items[place % len(items)]] * copies)
    elif not items or kind % 8 == 1:
        old = b"" if field.type == FieldDescriptor.TYPE_BYTES else ""
        items.append(_new(items[0] if items else old, field, edit, inner))
    else:
        at = place % len(items)
        items[at] = _new(items[at], field, edit, inner)


def _new(old: object, field: FieldDescriptor, edit: Edit, inner: Inner) -> object:
    _, _, value = edit
    if field.type == FieldDescriptor.TYPE_BYTES:
        return inner(field.name, old, edit)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _TEXTS[value % len(_TEXTS)]
    numbers = _NUMBERS[field.cpp_type]
    return numbers[value % len(numbers)]


def _places(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    """Yield every field of a message and of those inside it, set or not."""
    for field in message.DESCRIPTOR.fields:
        yield message, field
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            continue
        children = getattr(message, field.name)
        inner = (
            children if _is_repeated(field) else [children] if message.HasField(field.name) else []
        )
        for child in inner:
            yield from _places(child)


def _is_repeated(field: FieldDescriptor) -> bool:
    return (
        field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    )
