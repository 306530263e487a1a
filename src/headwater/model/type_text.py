"""Data types as SQL writes them: `DECIMAL(10, 2) NOT NULL`, `ROW<a INT, b STRING>`."""

import re

from headwater.model.type_parser import PLAIN_TYPES, TypeParser
from headwater.model.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    RowField,
    RowType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Of several names of a type the first is the one to write.
_NAMES: dict[type[DataType], str] = {
    type(each): name for name, each in reversed(PLAIN_TYPES.items())
}


def parse_type(text: str) -> DataType:
    """Read a type as SQL writes it, or say where it cannot be understood."""
    return TypeParser(text).read_all()


def type_text(data_type: DataType) -> str:
    """Write a type as SQL does; ids of nested fields are left out."""
    text = _bare_text(data_type)
    return text if data_type.nullable else f"{text} NOT NULL"


def _bare_text(data_type: DataType) -> str:
    match data_type:
        case CharType(length=length):
            return f"CHAR({length})"
        case BinaryType(length=length):
            return f"BINARY({length})"
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case TimeType(precision=precision):
            return f"TIME({precision})"
        case TimestampType(precision=precision):
            return f"TIMESTAMP({precision})"
        case TimestampLtzType(precision=precision):
            return f"TIMESTAMP_LTZ({precision})"
        case ArrayType() | MapType() | RowType():
            return _nested_text(data_type)
        case _:
            return _NAMES[type(data_type)]


def _nested_text(data_type: ArrayType | MapType | RowType) -> str:
    match data_type:
        case ArrayType(element=element):
            return f"ARRAY<{type_text(element)}>"
        case MapType(key=key, value=value):
            return f"MAP<{type_text(key)}, {type_text(value)}>"
        case RowType(fields=fields):
            return f"ROW<{', '.join(map(_field_text, fields))}>"


def _field_text(field: RowField) -> str:
    doubled = field.name.replace("`", "``")
    name = field.name if _NAME.match(field.name) else f"`{doubled}`"
    if field.description is None:
        return f"{name} {type_text(field.type)}"
    comment = field.description.replace("'", "''")
    return f"{name} {type_text(field.type)} '{comment}'"
