"""Data types in SQL: `DECIMAL(10, 2) NOT NULL`, `ROW<a INT, b STRING>`.

The parser reads from left to right and reports the position where it stopped.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from headwater.errors import InvalidTableError
from headwater.model import types

PLAIN_TYPES: dict[str, types.DataType] = {
    "BOOLEAN": types.BooleanType(),
    "TINYINT": types.TinyIntType(),
    "SMALLINT": types.SmallIntType(),
    "INT": types.IntType(),
    "INTEGER": types.IntType(),
    "BIGINT": types.BigIntType(),
    "FLOAT": types.FloatType(),
    "DOUBLE": types.DoubleType(),
    "STRING": types.StringType(),
    "BYTES": types.BytesType(),
    "DATE": types.DateType(),
}
# Type names of other systems.
_MEANT = {
    **dict.fromkeys(("INT8", "BYTE", "INT1"), "TINYINT"),
    **dict.fromkeys(("INT16", "SHORT", "UINT8", "INT2"), "SMALLINT"),
    **dict.fromkeys(("INT32", "UINT16", "INT4"), "INT"),
    **dict.fromkeys(("INT64", "LONG", "UINT32", "LONGINT"), "BIGINT"),
    **dict.fromkeys(("UINT64", "HUGEINT", "NUMBER"), "DECIMAL(20, 0)"),
    **dict.fromkeys(("FLOAT32", "REAL", "FLOAT4", "SINGLE"), "FLOAT"),
    **dict.fromkeys(("FLOAT64", "FLOAT8"), "DOUBLE"),
    **dict.fromkeys(("TEXT", "STR", "UTF8", "NVARCHAR", "UUID", "JSON", "OBJECT"), "STRING"),
    **dict.fromkeys(("BOOL", "BIT"), "BOOLEAN"),
    **dict.fromkeys(("BLOB", "BYTEA", "RAW"), "BYTES"),
    **dict.fromkeys(("DATETIME", "DATETIME64", "TIMESTAMP_NTZ"), "TIMESTAMP"),
    **dict.fromkeys(("TIMESTAMPTZ", "INSTANT"), "TIMESTAMP_LTZ"),
    **dict.fromkeys(("DATE32", "DATE64"), "DATE"),
    **dict.fromkeys(("TIME32", "TIME64"), "TIME"),
    **dict.fromkeys(("DECIMAL128", "DEC"), "DECIMAL(10, 2)"),
    "LIST": "ARRAY<INT>",
    "STRUCT": "ROW<a INT, b STRING>",
}
_LIKENESS_MIN = 0.75
_UNLIMITED = 2**31 - 1
_DIGITS_MAX = 10
_SHOWN_CHARACTERS_MAX = 200
_TOKEN = re.compile(r"\s*(?:(\w+)|`((?:[^`]|``)+)`|'((?:[^']|'')*)'|(\S))")


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a quoted name or a symbol, and its position."""

    kind: str
    text: str
    start: int


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        word, name, comment, sign = found.groups()
        start = found.start(found.lastindex or 0)
        if word is not None:
            yield _Token("word", word, start)
        elif name is not None:
            yield _Token("name", name.replace("``", "`"), start - 1)
        elif comment is not None:
            yield _Token("comment", comment.replace("''", "'"), start - 1)
        else:
            yield _Token("sign", sign, start)
    yield _Token("end", "", len(text))


class TypeParser:
    """Parse one type with everything nested in it."""

    __slots__ = ("_at", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    def read_all(self) -> types.DataType:
        """Parse a type that nothing follows."""
        data_type = self._type(depth=0)
        if self._next.kind != "end":
            raise self._error(self._next, "expected nothing more")
        return data_type

    def _type(self, *, depth: int) -> types.DataType:
        token = self._next
        if depth > types.NESTING_MAX:
            raise self._error(token, f"types are nested more than {types.NESTING_MAX} levels deep")
        data_type = self._bare_type(self._word("a type").upper(), token, depth=depth)
        if self._takes("NOT"):
            self._expect("NULL")
            return data_type.not_null()
        self._takes("NULL")
        return data_type

    def _bare_type(self, name: str, token: _Token, *, depth: int) -> types.DataType:
        match name:
            case _ if name in PLAIN_TYPES:
                if name == "DOUBLE":
                    self._takes("PRECISION")
                return PLAIN_TYPES[name]
            case "ARRAY":
                return self._array(depth + 1)
            case "MAP":
                return self._map(depth + 1)
            case "ROW":
                return self._row(depth + 1)
            case _ if name in _SIZED_TYPES:
                return self._sized_type(name, token)
            case _:
                raise self._unknown(token)

    def _unknown(self, token: _Token) -> InvalidTableError:
        known = [*PLAIN_TYPES, *_SIZED_TYPES, "ARRAY<...>", "MAP<..., ...>", "ROW<...>"]
        upper = token.text.upper()
        meant = _MEANT.get(upper)
        if meant is None:
            meant = next(iter(get_close_matches(upper, known, n=1, cutoff=_LIKENESS_MIN)), None)
        hint = f"The types are {', '.join(known)}." if meant is None else f"Write {meant}."
        return InvalidTableError(f"There is no type '{self._cut(token.text)}'.", hint=hint)

    def _array(self, depth: int) -> types.DataType:
        self._expect("<")
        element = self._type(depth=depth)
        self._expect(">")
        return types.ArrayType(element=element)

    def _map(self, depth: int) -> types.DataType:
        self._expect("<")
        key = self._type(depth=depth)
        self._expect(",")
        value = self._type(depth=depth)
        self._expect(">")
        return types.MapType(key=key, value=value)

    def _row(self, depth: int) -> types.DataType:
        closing = ")" if self._takes("(") else ">"
        if closing == ">":
            self._expect("<")
        fields = [self._field(depth)]
        while self._takes(","):
            fields.append(self._field(depth))
        self._expect(closing)
        return types.RowType(fields=tuple(fields))

    def _field(self, depth: int) -> types.RowField:
        name = self._word("a field name", "name")
        data_type = self._type(depth=depth)
        comment = self._advance().text if self._next.kind == "comment" else None
        return types.RowField(name=name, type=data_type, description=comment)

    def _sized_type(self, name: str, token: _Token) -> types.DataType:
        numbers = self._numbers()
        if name in ("TIME", "TIMESTAMP") and self._takes("WITHOUT"):
            self._expect("TIME", "ZONE")
        elif name == "TIMESTAMP" and self._takes("WITH"):
            self._expect("LOCAL", "TIME", "ZONE")
            name = "TIMESTAMP_LTZ"
        most, make = _SIZED_TYPES[name]
        if len(numbers) > most:
            raise self._error(token, f"{name} takes {most} number{'s' if most > 1 else ''} at most")
        try:
            return make(*numbers)
        except InvalidTableError as error:
            raise self._error(token, error.message.rstrip(".")) from None

    def _numbers(self) -> list[int]:
        """Parse numbers in parentheses, if there are any."""
        if not self._takes("("):
            return []
        numbers = [self._number()]
        while self._takes(","):
            numbers.append(self._number())
        self._expect(")")
        return numbers

    def _number(self) -> int:
        token = self._next
        text = self._word("a number")
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
            raise self._error(token, f"expected a number of at most {_DIGITS_MAX} digits")
        return int(text)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _advance(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _takes(self, text: str) -> bool:
        """Consume a word or symbol if it is next."""
        token = self._next
        is_it = token.kind in ("word", "sign") and token.text.upper() == text
        self._at += is_it
        return is_it

    def _word(self, what: str, *more_kinds: str) -> str:
        if self._next.kind not in ("word", *more_kinds):
            raise self._error(self._next, f"expected {what}")
        return self._advance().text

    def _expect(self, *texts: str) -> None:
        for text in texts:
            if not self._takes(text):
                raise self._error(self._next, f"expected '{text}'")

    @staticmethod
    def _cut(text: str) -> str:
        is_long = len(text) > _SHOWN_CHARACTERS_MAX
        return f"{text[:_SHOWN_CHARACTERS_MAX]}…" if is_long else text

    def _error(self, token: _Token, why: str) -> InvalidTableError:
        shown = self._cut(self._text)
        return InvalidTableError(
            f"The type '{shown}' cannot be parsed at character {token.start + 1}: {why}."
        )


def _char(length: int = 1) -> types.DataType:
    return types.CharType(length=length)


def _binary(length: int = 1) -> types.DataType:
    return types.BinaryType(length=length)


def _varchar(length: int = _UNLIMITED) -> types.DataType:
    if length != _UNLIMITED:
        raise InvalidTableError("strings of limited length are not supported, use STRING")
    return types.StringType()


def _varbinary(length: int = _UNLIMITED) -> types.DataType:
    if length != _UNLIMITED:
        raise InvalidTableError("bytes of limited length are not supported, use BYTES")
    return types.BytesType()


def _decimal(precision: int = 10, scale: int = 0) -> types.DataType:
    return types.DecimalType(precision=precision, scale=scale)


def _time(precision: int = 0) -> types.DataType:
    return types.TimeType(precision=precision)


def _timestamp(precision: int = 6) -> types.DataType:
    return types.TimestampType(precision=precision)


def _timestamp_ltz(precision: int = 6) -> types.DataType:
    return types.TimestampLtzType(precision=precision)


# How many numbers a type takes, and how it is made from them.
_SIZED_TYPES: dict[str, tuple[int, Callable[..., types.DataType]]] = {
    "CHAR": (1, _char),
    "BINARY": (1, _binary),
    "VARCHAR": (1, _varchar),
    "VARBINARY": (1, _varbinary),
    "DECIMAL": (2, _decimal),
    "NUMERIC": (2, _decimal),
    "TIME": (1, _time),
    "TIMESTAMP": (1, _timestamp),
    "TIMESTAMP_LTZ": (1, _timestamp_ltz),
}


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Of several names of a type, the first is the one that is written.
_NAMES: dict[type[types.DataType], str] = {
    type(each): name for name, each in reversed(PLAIN_TYPES.items())
}


def parse_type(text: str) -> types.DataType:
    """Parse a type in SQL; the error says where parsing stopped."""
    return TypeParser(text).read_all()


def type_text(data_type: types.DataType) -> str:
    """Write a type in SQL; ids of nested fields are left out."""
    text = _bare_text(data_type)
    return text if data_type.nullable else f"{text} NOT NULL"


def _bare_text(data_type: types.DataType) -> str:
    match data_type:
        case types.CharType(length=length):
            return f"CHAR({length})"
        case types.BinaryType(length=length):
            return f"BINARY({length})"
        case types.DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case types.TimeType(precision=precision):
            return f"TIME({precision})"
        case types.TimestampType(precision=precision):
            return f"TIMESTAMP({precision})"
        case types.TimestampLtzType(precision=precision):
            return f"TIMESTAMP_LTZ({precision})"
        case types.ArrayType() | types.MapType() | types.RowType():
            return _nested_text(data_type)
        case _:
            return _NAMES[type(data_type)]


def _nested_text(data_type: types.ArrayType | types.MapType | types.RowType) -> str:
    match data_type:
        case types.ArrayType(element=element):
            return f"ARRAY<{type_text(element)}>"
        case types.MapType(key=key, value=value):
            return f"MAP<{type_text(key)}, {type_text(value)}>"
        case types.RowType(fields=fields):
            return f"ROW<{', '.join(map(_field_text, fields))}>"


def _field_text(field: types.RowField) -> str:
    doubled = field.name.replace("`", "``")
    name = field.name if _NAME.match(field.name) else f"`{doubled}`"
    if field.description is None:
        return f"{name} {type_text(field.type)}"
    comment = field.description.replace("'", "''")
    return f"{name} {type_text(field.type)} '{comment}'"
