"""Text as values of a column's type, and conditions on such values, as people write them."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidValueError, RequestError
from headwater.rows.compute import pc

# Text as values of a column's type: the inverse of the text functions in `output`.

TEXT_SHOWN_MAX = 40
# Raised when converting a text that is not a value, at any depth.
_FAULTS = (pa.ArrowException, ValueError, TypeError, KeyError, InvalidValueError)
_HEX = r"^([0-9A-Fa-f]{2})*$"
_ZONE = r"(?:[Zz]|[+-][0-9]{2}:?(?:[0-9]{2})?)$"


def anywhere(_: int) -> str:
    """Name no place: the text stands alone."""
    return ""


def typed(
    texts: pa.StringArray, kind: pa.DataType, *, place: Callable[[int], str] = anywhere
) -> pa.Array:
    """Convert text to values of a type; the error names the first invalid one and its place."""
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
    """Convert one text to a Python value of a type."""
    return typed(pa.array([text], pa.string()), kind)[0].as_py()


def _first_bad(texts: pa.StringArray, convert: Callable[[pa.StringArray], pa.Array]) -> int:
    """Bisect the texts until one is left: a conversion says that it fails, but not where."""
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
    # Arrow cannot parse times of day, but it can parse timestamps of the first day.
    whole = pc.binary_join_element_wise("1970-01-01T", texts, "")
    return pc.cast(pc.cast(whole, pa.timestamp(kind.unit)), kind)


def _timestamps(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    if kind.tz is None:
        return pc.cast(texts, kind)
    # Without a zone a text means UTC, as a column of instants is printed.
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
    """Convert values from JSON to a column of any type."""
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
    """Convert a scalar from JSON to text, ready to be typed."""
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


# Conditions as people write them, such as `amount > 10`, and as scans take them.

EXAMPLES = (
    "Write it like: amount > 10, city = 'Rome', city in ('Rome', 'Oslo'), note is null, or"
    " amount > 10 and city = 'Rome'."
)
OPERATORS = {"=": "==", "==": "==", "!=": "!=", "<>": "!="} | {x: x for x in ("<=", ">=", "<", ">")}
_NAME = r"(?:\"(?P<quoted>(?:[^\"]|\"\")+)\"|(?P<name>[A-Za-z_][\w.]*))"
_COMPARISON = re.compile(
    rf"\s*{_NAME}\s*(?P<operator><=|>=|<>|!=|==|=|<|>)\s*(?P<value>.+?)\s*\Z", re.DOTALL
)
_MEMBERSHIP = re.compile(
    rf"\s*{_NAME}\s+(?P<operator>(?:not\s+)?in)\s*\((?P<value>.*)\)\s*\Z", re.DOTALL | re.IGNORECASE
)
_NULLNESS = re.compile(rf"\s*{_NAME}\s+(?P<operator>is(?:\s+not)?\s+null)\s*\Z", re.IGNORECASE)
_SEARCH = re.compile(
    rf"\s*{_NAME}\s+(?P<operator>starts\s+with|ends\s+with|contains)\s+(?P<value>.+?)\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
_LITERAL = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^',]*?))\s*(?:,|\Z)", re.DOTALL)

# Quotes and parentheses hide words that join conditions.
_JOINING = re.compile(
    r"(?P<skipped>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\([^)]*\))|\s(?P<word>and|or)\s", re.IGNORECASE
)

Literal = bool | int | float | str | bytes | Decimal | date | time | datetime | None
Condition = tuple[str, str] | tuple[str, str, Literal | list[Literal]]


@dataclass(frozen=True, slots=True)
class UntypedCondition:
    """One condition before the type of its column is known."""

    column: str
    operator: str
    texts: tuple[str, ...]


def parse_condition(text: str) -> UntypedCondition:
    """Parse one condition; the error shows how to write one."""
    if found := _NULLNESS.match(text):
        words = found["operator"].lower().split()
        return UntypedCondition(_column(found), "is not null" if "not" in words else "is null", ())
    if found := _MEMBERSHIP.match(text):
        operator = " ".join(found["operator"].lower().split())
        return UntypedCondition(_column(found), operator, _literals(found["value"], text))
    if found := _SEARCH.match(text) or _COMPARISON.match(text):
        operator = " ".join(found["operator"].lower().split())
        texts = _literals(found["value"], text)
        if len(texts) == 1:
            return UntypedCondition(_column(found), OPERATORS.get(operator, operator), texts)
    raise RequestError(f"Cannot parse the condition {text!r}.", hint=EXAMPLES)


def conditions(texts: Sequence[str], schema: pa.Schema) -> list[Condition]:
    """Convert conditions to terms whose literals have the types of their columns; all must hold."""
    return [_typed(each, schema) for text in texts for each in parse_conditions(text)]


def parse_conditions(text: str) -> list[UntypedCondition]:
    """Parse conditions that are joined by `and`."""
    if len(found := _joined(text, "and")) > 1:
        return [each for part in found for each in parse_conditions(part)]
    if len(_joined(text, "or")) > 1:
        raise RequestError(
            f"The condition {text!r} has an 'or', but conditions can only be joined by 'and'.",
            hint="Use 'in' for several values of a column, or: headwater sql \"select ...\"",
        )
    return [parse_condition(text)]


def _joined(text: str, word: str) -> list[str]:
    """Split a text at a word, if every part is a condition; otherwise leave it whole.

    Text without quotes may contain the word: `item = salt and pepper` is one condition.
    """
    parts, start = [], 0
    for found in _JOINING.finditer(text):
        if (found["word"] or "").lower() == word:
            parts.append(text[start : found.start()])
            start = found.end()
    parts.append(text[start:])
    return parts if all(map(_is_condition, parts)) else [text]


def _is_condition(text: str) -> bool:
    try:
        parse_condition(text)
    except RequestError:
        return False
    return True


def _typed(comparison: UntypedCondition, schema: pa.Schema) -> Condition:
    kind = column_type(comparison.column, schema)
    values = [_literal(text, kind) for text in comparison.texts]
    match comparison.operator:
        case "in" | "not in":
            return comparison.column, comparison.operator, values
        case "is null" | "is not null":
            return comparison.column, comparison.operator
        case _:
            return comparison.column, comparison.operator, values[0]


def column_type(name: str, schema: pa.Schema) -> pa.DataType:
    """Look up the type of a column; the error lists the columns."""
    if name not in schema.names:
        raise RequestError(
            f"There is no column '{name}'.", hint=f"The columns are {', '.join(schema.names)}."
        )
    return schema.field(name).type


def _literal(text: str, kind: pa.DataType) -> Literal:
    # A number may be between two values of its column: `n > 1.5` is a fair question.
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _number(text, kind)
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit == "ns":
        kind = pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us", kind.tz)
    value: Literal = typed(pa.array([text]), kind)[0].as_py()
    return value


def _number(text: str, kind: pa.DataType) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InvalidValueError(f"{text!r} is not a value of type {kind}.")
    return number


def _column(found: re.Match[str]) -> str:
    return found["name"] or found["quoted"].replace('""', '"')


def _literals(text: str, whole: str) -> tuple[str, ...]:
    texts: list[str] = []
    place = 0
    while place < len(text):
        found = _LITERAL.match(text, place)
        if found is None or found[0] == "" or (found[1] is None and not found[2]):
            raise RequestError(f"Cannot parse the condition {whole!r}.", hint=EXAMPLES)
        texts.append(found[2] if found[1] is None else found[1].replace("''", "'"))
        place = found.end()
    return tuple(texts)
