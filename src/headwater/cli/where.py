"""Conditions as people write them, `amount > 10`, and as scans take them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from headwater.cli.typed import typed
from headwater.errors import InvalidValueError, RequestError

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

# What stands in quotes or parentheses holds no word that joins conditions.
_JOINING = re.compile(
    r"(?P<skipped>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\([^)]*\))|\s(?P<word>and|or)\s", re.IGNORECASE
)

Literal = bool | int | float | str | bytes | Decimal | date | time | datetime | None
Condition = tuple[str, str] | tuple[str, str, Literal | list[Literal]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hold one condition before the type of its column is known."""

    column: str
    operator: str
    texts: tuple[str, ...]


def parse_condition(text: str) -> Comparison:
    """Read one condition, or show how one is written."""
    if found := _NULLNESS.match(text):
        words = found["operator"].lower().split()
        return Comparison(_column(found), "is not null" if "not" in words else "is null", ())
    if found := _MEMBERSHIP.match(text):
        operator = " ".join(found["operator"].lower().split())
        return Comparison(_column(found), operator, _literals(found["value"], text))
    if found := _SEARCH.match(text) or _COMPARISON.match(text):
        operator = " ".join(found["operator"].lower().split())
        texts = _literals(found["value"], text)
        if len(texts) == 1:
            return Comparison(_column(found), OPERATORS.get(operator, operator), texts)
    raise RequestError(f"The condition {text!r} cannot be read.", hint=EXAMPLES)


def conditions(texts: Sequence[str], schema: pa.Schema) -> list[Condition]:
    """Return conditions whose literals have the types of their columns; all of them must hold."""
    return [_typed(each, schema) for text in texts for each in parse_conditions(text)]


def parse_conditions(text: str) -> list[Comparison]:
    """Read conditions that `and` joins."""
    if len(found := _joined(text, "and")) > 1:
        return [each for part in found for each in parse_conditions(part)]
    if len(_joined(text, "or")) > 1:
        raise RequestError(
            f"The condition {text!r} has an 'or', and conditions are joined by 'and' only.",
            hint="Use 'in' for several values of a column, or: headwater sql \"select ...\"",
        )
    return [parse_condition(text)]


def _joined(text: str, word: str) -> list[str]:
    """Cut a text at a word, if what is on every side of it is a condition; else leave it whole.

    A text without quotes may have the word in it: `item = salt and pepper` is one condition.
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


def _typed(comparison: Comparison, schema: pa.Schema) -> Condition:
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
    """Return the type of a column, or say which columns there are."""
    if name not in schema.names:
        raise RequestError(
            f"There is no column '{name}'.", hint=f"The columns are {', '.join(schema.names)}."
        )
    return schema.field(name).type


def _literal(text: str, kind: pa.DataType) -> Literal:
    # A number may lie between two values of its column: `n > 1.5` is a fair question.
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
            raise RequestError(f"The condition {whole!r} cannot be read.", hint=EXAMPLES)
        texts.append(found[2] if found[1] is None else found[1].replace("''", "'"))
        place = found.end()
    return tuple(texts)
