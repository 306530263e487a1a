"""The data types of a table that Spark's types stand for, read from their JSON form."""

import re
from collections.abc import Mapping, Sequence

from headwater.errors import InvalidTableError
from headwater.model.schema import Column
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    BytesType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    MapType,
    RowField,
    RowType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)

_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "byte": TinyIntType(),
    "short": SmallIntType(),
    "integer": IntType(),
    "long": BigIntType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BytesType(),
    "date": DateType(),
    "decimal": DecimalType(precision=10, scale=0),
    # Spark keeps microseconds.
    "timestamp": TimestampLtzType(precision=6),
    "timestamp_ntz": TimestampType(precision=6),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)\Z")
_TIME = re.compile(r"time\((\d)\)\Z")
_TEXT = re.compile(r"(char|varchar)\((\d+)\)\Z")
# Where Spark keeps the declared type of text that it treats as a string.
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"


def columns_of_struct(struct: object) -> tuple[Column, ...]:
    """Return the columns that the JSON form of a StructType describes."""
    return tuple(
        Column(name=field.name, type=field.type, comment=field.description)
        for field in _fields(_object(struct), "")
    )


def _fields(struct: Mapping[str, object], path: str) -> tuple[RowField, ...]:
    fields = struct.get("fields")
    if not isinstance(fields, Sequence):
        raise InvalidTableError("The Spark schema has no fields.")
    return tuple(_field(_object(field), path) for field in fields)


def _field(field: Mapping[str, object], path: str) -> RowField:
    name = str(field.get("name"))
    where = f"{path}.{name}" if path else name
    metadata = _object(field.get("metadata") or {})
    declared = metadata.get(_DECLARED, field.get("type"))
    data_type = _nullable(_type(declared, where), field.get("nullable", True))
    comment = metadata.get("comment")
    return RowField(
        name=name, type=data_type, description=comment if isinstance(comment, str) else None
    )


def _type(json: object, path: str) -> DataType:
    if isinstance(json, Mapping):
        return _nested_type(json, path)
    text = str(json)
    if text in _PLAIN:
        return _PLAIN[text]
    if found := _DECIMAL.match(text):
        return DecimalType(precision=int(found[1]), scale=int(found[2]))
    if found := _TIME.match(text):
        return TimeType(precision=int(found[1]))
    if found := _TEXT.match(text):
        return CharType(length=int(found[2])) if found[1] == "char" else StringType()
    raise InvalidTableError(
        f"The column '{path}' has the Spark type {text[:80]}, which no table can have.",
        hint="Cast it to another type first.",
    )


def _nested_type(json: Mapping[str, object], path: str) -> DataType:
    match json.get("type"):
        case "array":
            element = _type(json.get("elementType"), f"{path}.item")
            return ArrayType(element=_nullable(element, json.get("containsNull", True)))
        case "map":
            key = _type(json.get("keyType"), f"{path}.key").not_null()
            value = _type(json.get("valueType"), f"{path}.value")
            return MapType(key=key, value=_nullable(value, json.get("valueContainsNull", True)))
        case "struct":
            return RowType(fields=_fields(json, path))
        case other:
            return _type(f"{other}", path)


def _nullable(data_type: DataType, nullable: object) -> DataType:
    return data_type if nullable is not False else data_type.not_null()


def _object(json: object) -> Mapping[str, object]:
    if not isinstance(json, Mapping):
        raise InvalidTableError("The Spark schema is malformed.")
    return json
