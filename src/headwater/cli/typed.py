"""Texts as values of a column's type: the way back from what `texts` writes."""

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidValueError

TEXT_SHOWN_MAX = 40
# What converting a text that is no value raises, at any depth.
_FAULTS = (pa.ArrowException, ValueError, TypeError, KeyError, InvalidValueError)
_HEX = r"^([0-9A-Fa-f]{2})*$"
_ZONE = r"(?:[Zz]|[+-][0-9]{2}:?(?:[0-9]{2})?)$"


def anywhere(_: int) -> str:
    """Name no place: the text stands alone."""
    return ""


def typed(
    texts: pa.StringArray, kind: pa.DataType, *, place: Callable[[int], str] = anywhere
) -> pa.Array:
    """Return texts as values of a type, or name the first that is none and its place."""
    convert = _converter(kind)
    try:
        return convert(texts, kind)
    except _FAULTS:
        row = _first_bad(texts, lambda part: convert(part, kind))
        raise InvalidValueError(
            f"{place(row)}{_shown(texts[row].as_py())} is not a value of type {kind}.",
            hint=_example(kind),
        ) from None


def typed_value(text: str, kind: pa.DataType) -> object:
    """Return one text as a Python value of a type."""
    return typed(pa.array([text], pa.string()), kind)[0].as_py()


def _first_bad(texts: pa.StringArray, convert: Callable[[pa.StringArray], pa.Array]) -> int:
    """Halve the texts until one is left: a conversion tells that it fails, but not where."""
    start, end = 0, len(texts)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            convert(texts.slice(start, middle - start))
            start = middle
        except _FAULTS:
            end = middle
    return start


def _converter(kind: pa.DataType) -> Callable[[pa.StringArray, pa.DataType], pa.Array]:
    if pa.types.is_nested(kind):
        return _from_json
    if pa.types.is_time(kind):
        return _times
    if pa.types.is_timestamp(kind):
        return _timestamps
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _from_hex
    return pc.cast


def _times(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    # Arrow parses no times of day, but timestamps of the first day, which are times of day.
    whole = pc.binary_join_element_wise("1970-01-01T", texts, "")
    return pc.cast(pc.cast(whole, pa.timestamp(kind.unit)), kind)


def _timestamps(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    if kind.tz is None:
        return pc.cast(texts, kind)
    # Without a zone a text means UTC, as a column of instants shows it.
    zoned = pc.match_substring_regex(texts, _ZONE)
    whole = pc.if_else(zoned, texts, pc.binary_join_element_wise(texts, "Z", ""))
    return pc.cast(whole, kind)


def _from_hex(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    if not pc.all(pc.match_substring_regex(texts, _HEX), min_count=0).as_py():
        raise ValueError
    packed = pa.concat_arrays([texts]) if texts.offset == 0 else pc.take(texts, _positions(texts))
    data, offsets = packed.buffers()[2], packed.buffers()[1]
    digits = b"" if data is None else bytes(data)
    ends = np.frombuffer(offsets, np.int32)[: len(packed) + 1] if len(packed) else np.zeros(1)
    values = pa.BinaryArray.from_buffers(
        pa.binary(),
        len(packed),
        [
            pc.is_valid(packed).buffers()[1],
            pa.py_buffer((ends // 2).astype(np.int32)),
            pa.py_buffer(bytes.fromhex(digits.decode())),
        ],
    )
    return pc.cast(values, kind)


def _positions(texts: pa.StringArray) -> pa.Int64Array:
    return pa.array(np.arange(len(texts)))


def _from_json(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    parsed = [None if each is None else json.loads(each) for each in texts.to_pylist()]
    return nested_array(parsed, kind)


def nested_array(values: list[object], kind: pa.DataType) -> pa.Array:
    """Return values that were read from JSON as a column, whatever its type."""
    valid = pa.array([value is not None for value in values], pa.bool_())
    if pa.types.is_struct(kind):
        return _struct_array(values, kind, valid)
    if pa.types.is_map(kind):
        return _map_array(values, kind)
    if pa.types.is_list(kind):
        return _list_array(values, kind)
    return typed(pa.array(map(scalar_text, values), pa.string()), kind)


def _struct_array(values: list[object], kind: pa.DataType, valid: pa.BooleanArray) -> pa.Array:
    fields = list(kind)
    names = {field.name for field in fields}
    rows = [{} if value is None else _object_of(value, names) for value in values]
    columns = [nested_array([row.get(f.name) for row in rows], f.type) for f in fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.invert(valid))


def _object_of(value: object, names: set[str]) -> dict[str, object]:
    if not isinstance(value, dict) or not names.issuperset(value):
        raise TypeError
    return value


def _list_array(values: list[object], kind: pa.DataType) -> pa.Array:
    offsets, flat = _flattened(values)
    return pa.ListArray.from_arrays(offsets, nested_array(flat, kind.value_type), type=kind)


def _map_array(values: list[object], kind: pa.DataType) -> pa.Array:
    offsets, flat = _flattened(values)
    pairs = [_object_of(value, {"key", "value"}) for value in flat]
    keys = nested_array([pair["key"] for pair in pairs], kind.key_type)
    items = nested_array([pair.get("value") for pair in pairs], kind.item_type)
    if keys.null_count:
        raise TypeError
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind)


def _flattened(values: list[object]) -> tuple[pa.Int32Array, list[object]]:
    """Return where each list begins among the elements of all; a null there is a null list."""
    if not all(value is None or isinstance(value, list) for value in values):
        raise TypeError
    lists = [value if isinstance(value, list) else [] for value in values]
    ends = np.cumsum([0, *map(len, lists)]).tolist()
    starts = [None if value is None else end for value, end in zip(values, ends, strict=False)]
    return pa.array([*starts, ends[-1]], pa.int32()), [each for part in lists for each in part]


def scalar_text(value: object) -> str | None:
    """Return a scalar that was read from JSON as text, ready to be typed."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return json.dumps(value)


def _shown(text: str) -> str:
    return repr(text if len(text) <= TEXT_SHOWN_MAX else f"{text[:TEXT_SHOWN_MAX]}…")


def _example(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "Write it like 2026-03-01T12:30:00."
    if pa.types.is_time(kind):
        return "Write it like 12:30:00."
    if pa.types.is_date(kind):
        return "Write it like 2026-03-01."
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "Write bytes as hexadecimal digits, two for each byte."
    if pa.types.is_nested(kind):
        return "Write it as JSON."
    return ""
