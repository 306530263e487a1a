"""Changes of JSON documents: other values, other types, missing and doubled parts, depth."""

import json
from collections.abc import Iterator, Sequence

from tests.fuzz.edits import Edit, edited

_DEEP = 5000
_VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**40,
    1.5,
    1e308,
    "",
    "x",
    "..",
    "a\0b",
    "\ud800",
    "é" * 200,
    "0x1p99999",
    "1e999999999",
    "9" * 5000,
    "AAAA=",
    "BIGINT",
    "ROW",
    [],
    [0],
    [[5, 3]],
    {},
    {"type": "ARRAY", "element_type": {"type": "MAP"}},
    {"float": "0x1p99999"},
    {"decimal": "sNaN"},
    {"bytes": "é"},
)


def json_edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Change a document; what is none is changed as bytes."""
    for kind, place, value in edits:
        data = _changed(data, kind, place, value)
    return data


def _changed(data: bytes, kind: int, place: int, value: int) -> bytes:
    if kind >= 60:
        return edited(data, [(kind, place, value)])
    if kind == 59:
        return _nested(data, value)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return edited(data, [(kind, place, value)])
    holder = {"document": document}
    places = list(_places(holder))
    container, key = places[place % len(places)]
    _change(container, key, kind, value)
    return json.dumps(holder.get("document")).encode()


def _nested(data: bytes, value: int) -> bytes:
    if value % 2:
        return b"[" * _DEEP + data + b"]" * _DEEP
    return b'{"schema":' * _DEEP + data + b"}" * _DEEP


def _places(node: object) -> Iterator[tuple[dict | list, object]]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in items:
        yield node, key
        if isinstance(child, dict | list):
            yield from _places(child)


def _change(container: dict | list, key: object, kind: int, value: int) -> None:
    match kind % 8:
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container.append(container[key])
        case 2 if isinstance(container, dict):
            container[f"{key}x"] = container.pop(key)
        case 3 if isinstance(container[key], int):
            container[key] += (1, -1, 100, 2**31)[value % 4]
        case 4 if isinstance(container, list):
            container.insert(0, _VALUES[value % len(_VALUES)])
        case 5:
            container[key] = [container[key]]
        case _:
            container[key] = _VALUES[value % len(_VALUES)]
