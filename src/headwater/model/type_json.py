"""The JSON form of data types, as Fluss clients write and read it."""

from collections.abc import Mapping
from json import dumps, loads
from typing import TypeAlias

from headwater.errors import InvalidTableError
from headwater.model import types

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_PlainType: TypeAlias = (
    types.BooleanType
    | types.TinyIntType
    | types.SmallIntType
    | types.IntType
    | types.BigIntType
    | types.FloatType
    | types.DoubleType
    | types.StringType
    | types.BytesType
    | types.DateType
)

_PLAIN: Mapping[str, type[_PlainType]] = {
    "BOOLEAN": types.BooleanType,
    "TINYINT": types.TinyIntType,
    "SMALLINT": types.SmallIntType,
    "INTEGER": types.IntType,
    "BIGINT": types.BigIntType,
    "FLOAT": types.FloatType,
    "DOUBLE": types.DoubleType,
    "STRING": types.StringType,
    "BYTES": types.BytesType,
    "DATE": types.DateType,
}
_ROOTS: Mapping[type[types.DataType], str] = {
    **{kind: root for root, kind in _PLAIN.items()},
    types.CharType: "CHAR",
    types.BinaryType: "BINARY",
    types.DecimalType: "DECIMAL",
    types.TimeType: "TIME_WITHOUT_TIME_ZONE",
    types.TimestampType: "TIMESTAMP_WITHOUT_TIME_ZONE",
    types.TimestampLtzType: "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    types.ArrayType: "ARRAY",
    types.MapType: "MAP",
    types.RowType: "ROW",
}


def type_root(data_type: types.DataType) -> str:
    """Name the type without its parameters."""
    return _ROOTS[type(data_type)]


def type_to_json(data_type: types.DataType) -> dict[str, Json]:
    """Write a data type in the JSON form of the protocol."""
    json: dict[str, Json] = {"type": type_root(data_type)}
    if not data_type.nullable:
        json["nullable"] = False
    json.update(_parameters(data_type))
    return json


def _parameters(data_type: types.DataType) -> dict[str, Json]:
    match data_type:
        case types.CharType(length=length) | types.BinaryType(length=length):
            return {"length": length}
        case types.DecimalType(precision=precision, scale=scale):
            return {"precision": precision, "scale": scale}
        case types.TimeType() | types.TimestampType() | types.TimestampLtzType():
            return {"precision": data_type.precision}
        case types.ArrayType(element=element):
            return {"element_type": type_to_json(element)}
        case types.MapType(key=key, value=value):
            return {"key_type": type_to_json(key), "value_type": type_to_json(value)}
        case types.RowType(fields=fields):
            return {"fields": [_field_to_json(field) for field in fields]}
        case _:
            return {}


def _field_to_json(field: types.RowField) -> Json:
    json: dict[str, Json] = {"name": field.name, "field_type": type_to_json(field.type)}
    if field.description is not None:
        json["description"] = field.description
    json["field_id"] = field.field_id
    return json


def type_from_json(json: Json, *, depth: int = 0) -> types.DataType:
    """Read a data type from the JSON form of the protocol."""
    if depth > types.NESTING_MAX:
        raise InvalidTableError(f"Types can be nested at most {types.NESTING_MAX} levels deep.")
    node = object_of(json, what="data type")
    data_type = _bare_type(node, depth)
    return data_type if node.get("nullable", True) is not False else data_type.not_null()


def _bare_type(node: Mapping[str, Json], depth: int) -> types.DataType:
    root = text_of(node, "type")
    if root in _PLAIN:
        return _PLAIN[root]()
    match root:
        case "CHAR":
            return types.CharType(length=int_of(node, "length"))
        case "BINARY":
            return types.BinaryType(length=int_of(node, "length", default=1))
        case "DECIMAL":
            scale = int_of(node, "scale", default=0)
            return types.DecimalType(precision=int_of(node, "precision"), scale=scale)
        case "TIME_WITHOUT_TIME_ZONE":
            return types.TimeType(precision=int_of(node, "precision", default=0))
        case "TIMESTAMP_WITHOUT_TIME_ZONE":
            return types.TimestampType(precision=int_of(node, "precision", default=6))
        case "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
            return types.TimestampLtzType(precision=int_of(node, "precision", default=6))
        case _:
            return _nested_type(root, node, depth + 1)


def _nested_type(root: str, node: Mapping[str, Json], depth: int) -> types.DataType:
    match root:
        case "ARRAY":
            return types.ArrayType(element=type_from_json(node.get("element_type"), depth=depth))
        case "MAP":
            key = type_from_json(node.get("key_type"), depth=depth)
            value = type_from_json(node.get("value_type"), depth=depth)
            return types.MapType(key=key, value=value)
        case "ROW":
            fields = list_of(node, "fields")
            return types.RowType(fields=tuple(_field_from_json(field, depth) for field in fields))
        case _:
            raise InvalidTableError(f"There is no data type '{root}'.")


def _field_from_json(json: Json, depth: int) -> types.RowField:
    node = object_of(json, what="row field")
    description = node.get("description")
    return types.RowField(
        name=text_of(node, "name"),
        type=type_from_json(node.get("field_type"), depth=depth),
        description=description if isinstance(description, str) else None,
        field_id=int_of(node, "field_id", default=-1),
    )


def with_nested_ids(data_type: types.DataType, next_id: int) -> tuple[types.DataType, int]:
    """Number the fields of nested rows from `next_id`; return the type and the next free id."""
    match data_type:
        case types.ArrayType(element=element, nullable=nullable):
            element, next_id = with_nested_ids(element, next_id)
            return types.ArrayType(element=element, nullable=nullable), next_id
        case types.MapType(key=key, value=value, nullable=nullable):
            key, next_id = with_nested_ids(key, next_id)
            value, next_id = with_nested_ids(value, next_id)
            return types.MapType(key=key, value=value, nullable=nullable), next_id
        case types.RowType(fields=fields, nullable=nullable):
            numbered = []
            for field in fields:
                own_id, next_id = next_id, next_id + 1
                inner, next_id = with_nested_ids(field.type, next_id)
                numbered.append(
                    types.RowField(
                        name=field.name,
                        type=inner,
                        description=field.description,
                        field_id=own_id,
                    )
                )
            return types.RowType(fields=tuple(numbered), nullable=nullable), next_id
        case _:
            return data_type, next_id


def document_of(text: str | bytes) -> Json:
    """Parse JSON, or raise `ValueError`.

    JSON that is nested too deeply for the parser is rejected, and so are lone surrogates: an escape
    such as `\ud800` makes a string that cannot be encoded as UTF-8.
    """
    try:
        # Bytes must be strict UTF-8: the parser would guess, and let lone surrogates pass.
        whole = text.decode() if isinstance(text, bytes) else text.encode().decode()
        document: Json = loads(whole)
        if "\\u" in whole:
            dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return document


def object_of(json: Json, *, what: str) -> Mapping[str, Json]:
    """Check that JSON is an object, and return it."""
    if not isinstance(json, dict):
        raise InvalidTableError(f"The {what} must be a JSON object.")
    return json


def text_of(node: Mapping[str, Json], key: str) -> str:
    """Return a string by key."""
    value = node.get(key)
    if not isinstance(value, str):
        raise InvalidTableError(f"'{key}' must be a string.")
    return value


def texts_of(json: Json, *, what: str) -> dict[str, str]:
    """Return an object whose values are strings; a missing one is empty."""
    node = object_of({} if json is None else json, what=what)
    if not all(isinstance(value, str) for value in node.values()):
        raise InvalidTableError(f"The values in '{what}' must be strings.")
    return {key: str(value) for key, value in node.items()}


def int_of(node: Mapping[str, Json], key: str, *, default: int | None = None) -> int:
    """Return an integer by key, or its default."""
    value = node.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidTableError(f"'{key}' must be a whole number.")
    return value


def list_of(node: Mapping[str, Json], key: str) -> list[Json]:
    """Return a list by key; a missing one is empty."""
    value = node.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidTableError(f"'{key}' must be a list.")
    return value
