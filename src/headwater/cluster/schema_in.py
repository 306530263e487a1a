"""Schemas and new tables as users describe them, converted to the model.

A schema is an Arrow schema or anything that has one (tables, batches, data frames of pandas and
Polars, a Polars schema), Spark's StructType, or a mapping from column names to types. A type is
text such as `DECIMAL(10, 2) NOT NULL`, an Arrow type or a data type.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

import pyarrow as pa

from headwater.errors import InvalidTableError, RequestError
from headwater.model import Column, Schema, TableDescriptor, types
from headwater.model.schema import check_schema, with_column_ids
from headwater.model.table import AGGREGATE_PREFIX, with_aggregates
from headwater.model.type_text import parse_type
from headwater.rows.columns import names
from headwater.rows.frames import is_pandas, pandas_schema, polars_schema

# Arrow types.

_COMMENT = b"comment"
_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_ARROW_PLAIN: dict[pa.DataType, types.DataType] = {
    pa.bool_(): types.BooleanType(),
    pa.int8(): types.TinyIntType(),
    pa.int16(): types.SmallIntType(),
    pa.int32(): types.IntType(),
    pa.int64(): types.BigIntType(),
    # An unsigned type becomes the next larger signed one, which can hold all of its values.
    pa.uint8(): types.SmallIntType(),
    pa.uint16(): types.IntType(),
    pa.uint32(): types.BigIntType(),
    pa.float16(): types.FloatType(),
    pa.float32(): types.FloatType(),
    pa.float64(): types.DoubleType(),
    pa.string(): types.StringType(),
    pa.large_string(): types.StringType(),
    pa.string_view(): types.StringType(),
    pa.binary(): types.BytesType(),
    pa.large_binary(): types.BytesType(),
    pa.binary_view(): types.BytesType(),
    pa.date32(): types.DateType(),
    pa.date64(): types.DateType(),
}
_HINTS: dict[pa.DataType, str] = {
    pa.uint64(): "Use DECIMAL(20, 0), or BIGINT if the numbers stay below 2**63.",
    pa.null(): "A column without values has no type yet: cast it to the type you want.",
}


def column_of_field(field: pa.Field) -> Column:
    """Convert an Arrow field to a column; the comment is in its metadata."""
    return Column(name=field.name, type=_field_type(field, field.name), comment=_comment(field))


def data_type_of(kind: pa.DataType, *, path: str) -> types.DataType:
    """Convert an Arrow type to a data type; an unsupported one is an error."""
    kind = _unpacked(kind)
    if (plain := _ARROW_PLAIN.get(kind)) is not None:
        return plain
    found = _arrow_nested_type(kind, path) if pa.types.is_nested(kind) else _precise_type(kind)
    if found is None:
        raise InvalidTableError(
            f"The column '{path}' has the Arrow type {kind}, which is not supported.",
            hint=_HINTS.get(kind, "Cast it to another type first."),
        )
    return found


def _unpacked(kind: pa.DataType) -> pa.DataType:
    """Strip extension, dictionary and run-end encoding from a type."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _precise_type(kind: pa.DataType) -> types.DataType | None:
    if pa.types.is_timestamp(kind):
        precision = _PRECISIONS[kind.unit]
        timestamp = types.TimestampType if kind.tz is None else types.TimestampLtzType
        return timestamp(precision=precision)
    if pa.types.is_time(kind):
        return types.TimeType(precision=_PRECISIONS[kind.unit])
    if pa.types.is_decimal(kind):
        return types.DecimalType(precision=kind.precision, scale=kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return types.BinaryType(length=kind.byte_width)
    return None


def _arrow_nested_type(kind: pa.DataType, path: str) -> types.DataType | None:
    if pa.types.is_struct(kind):
        return types.RowType(fields=tuple(_row_field(field, path) for field in kind))
    if pa.types.is_map(kind):
        key = _field_type(kind.key_field, f"{path}.key")
        return types.MapType(
            key=key.not_null(), value=_field_type(kind.item_field, f"{path}.value")
        )
    if hasattr(kind, "value_field"):
        return types.ArrayType(element=_field_type(kind.value_field, f"{path}.item"))
    return None


def _row_field(field: pa.Field, path: str) -> types.RowField:
    data_type = _field_type(field, f"{path}.{field.name}")
    return types.RowField(name=field.name, type=data_type, description=_comment(field))


def _field_type(field: pa.Field, path: str) -> types.DataType:
    data_type = data_type_of(field.type, path=path)
    return data_type if field.nullable else data_type.not_null()


def _comment(field: pa.Field) -> str | None:
    comment = (field.metadata or {}).get(_COMMENT)
    return None if comment is None else comment.decode(errors="replace")


# Spark types, read from their JSON form.

_SPARK_PLAIN: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "byte": types.TinyIntType(),
    "short": types.SmallIntType(),
    "integer": types.IntType(),
    "long": types.BigIntType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "string": types.StringType(),
    "binary": types.BytesType(),
    "date": types.DateType(),
    "decimal": types.DecimalType(precision=10, scale=0),
    # Spark has microseconds.
    "timestamp": types.TimestampLtzType(precision=6),
    "timestamp_ntz": types.TimestampType(precision=6),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)\Z")
_TIME = re.compile(r"time\((\d)\)\Z")
_TEXT = re.compile(r"(char|varchar)\((\d+)\)\Z")
# Where Spark keeps the declared type of CHAR and VARCHAR columns.
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"


def columns_of_struct(struct: object) -> tuple[Column, ...]:
    """Convert the JSON form of a StructType to columns."""
    return tuple(
        Column(name=field.name, type=field.type, comment=field.description)
        for field in _fields(_object(struct), "")
    )


def _fields(struct: Mapping[str, object], path: str) -> tuple[types.RowField, ...]:
    fields = struct.get("fields")
    if not isinstance(fields, Sequence):
        raise InvalidTableError("The Spark schema has no fields.")
    return tuple(_field(_object(field), path) for field in fields)


def _field(field: Mapping[str, object], path: str) -> types.RowField:
    name = str(field.get("name"))
    where = f"{path}.{name}" if path else name
    metadata = _object(field.get("metadata") or {})
    declared = metadata.get(_DECLARED, field.get("type"))
    data_type = _nullable(_type(declared, where), field.get("nullable", True))
    comment = metadata.get("comment")
    return types.RowField(
        name=name, type=data_type, description=comment if isinstance(comment, str) else None
    )


def _type(json: object, path: str) -> types.DataType:
    if isinstance(json, Mapping):
        return _spark_nested_type(json, path)
    text = str(json)
    if text in _SPARK_PLAIN:
        return _SPARK_PLAIN[text]
    if found := _DECIMAL.match(text):
        return types.DecimalType(precision=int(found[1]), scale=int(found[2]))
    if found := _TIME.match(text):
        return types.TimeType(precision=int(found[1]))
    if found := _TEXT.match(text):
        return types.CharType(length=int(found[2])) if found[1] == "char" else types.StringType()
    raise InvalidTableError(
        f"The column '{path}' has the Spark type {text[:80]}, which is not supported.",
        hint="Cast it to another type first.",
    )


def _spark_nested_type(json: Mapping[str, object], path: str) -> types.DataType:
    match json.get("type"):
        case "array":
            element = _type(json.get("elementType"), f"{path}.item")
            return types.ArrayType(element=_nullable(element, json.get("containsNull", True)))
        case "map":
            key = _type(json.get("keyType"), f"{path}.key").not_null()
            value = _type(json.get("valueType"), f"{path}.value")
            return types.MapType(
                key=key, value=_nullable(value, json.get("valueContainsNull", True))
            )
        case "struct":
            return types.RowType(fields=_fields(json, path))
        case other:
            return _type(f"{other}", path)


def _nullable(data_type: types.DataType, nullable: object) -> types.DataType:
    return data_type if nullable is not False else data_type.not_null()


def _object(json: object) -> Mapping[str, object]:
    if not isinstance(json, Mapping):
        raise InvalidTableError("The Spark schema is malformed.")
    return json


@runtime_checkable
class ArrowSchema(Protocol):
    """Anything with a schema by Arrow's C interface."""

    def __arrow_c_schema__(self) -> object:
        """Export a capsule with the schema."""


@runtime_checkable
class HasArrowSchema(Protocol):
    """Anything with an Arrow schema: tables, batches, readers."""

    @property
    def schema(self) -> ArrowSchema:
        """The Arrow schema."""


@runtime_checkable
class SparkStruct(Protocol):
    """A StructType of Spark."""

    def jsonValue(self) -> dict[str, object]:  # noqa: N802
        """Export the type as JSON."""


TypeLike: TypeAlias = str | types.DataType | pa.DataType
SchemaLike: TypeAlias = (
    Schema | ArrowSchema | HasArrowSchema | SparkStruct | Mapping[str, TypeLike] | Iterable[object]
)


def schema_of(
    source: SchemaLike,
    *,
    primary_key: Sequence[str] = (),
    auto_increment: Sequence[str] = (),
) -> Schema:
    """Convert a schema; primary-key columns become NOT NULL."""
    given = source if isinstance(source, Schema) else Schema(columns=tuple(_columns(source)))
    keyed = replace(
        given,
        primary_key=_names(primary_key) or given.primary_key,
        auto_increment=_names(auto_increment) or given.auto_increment,
    )
    check_schema(keyed)
    columns = tuple(
        replace(column, type=column.type.not_null()) if column.name in keyed.primary_key else column
        for column in keyed.columns
    )
    return with_column_ids(replace(keyed, columns=columns))


def _names(names: Sequence[str]) -> tuple[str, ...]:
    """Make a tuple of names; a single name may be given as a string."""
    return (names,) if isinstance(names, str) else tuple(names)


def _columns(source: object) -> Iterable[Column]:
    if (arrow := _arrow_schema(source)) is not None:
        return map(column_of_field, arrow)
    struct = source.schema if isinstance(source, HasArrowSchema) else source
    if isinstance(struct, SparkStruct):
        return columns_of_struct(struct.jsonValue())
    if isinstance(source, Mapping):
        return [_column(name, kind) for name, kind in source.items()]
    raise InvalidTableError(
        f"A {type(source).__name__} is not a schema.",
        hint="Give an Arrow schema, a data frame, or a mapping from names to types.",
    )


def _arrow_schema(source: object) -> pa.Schema | None:
    if is_pandas(source):
        return pandas_schema(source)
    if (polars := polars_schema(source)) is not None:
        return polars
    if isinstance(source, HasArrowSchema) and isinstance(source.schema, pa.Schema):
        return source.schema
    return _exported_schema(source) if isinstance(source, ArrowSchema) else None


def _exported_schema(source: ArrowSchema) -> pa.Schema:
    try:
        return pa.schema(source)
    except (pa.ArrowInvalid, ValueError, TypeError) as error:
        raise InvalidTableError(
            f"A {type(source).__name__} is not a schema: {str(error).splitlines()[0]}.",
            hint="Give a schema with named fields.",
        ) from None


def _column(name: object, kind: object) -> Column:
    if not isinstance(name, str):
        raise InvalidTableError(f"A column name must be text, not {name!r}.")
    return Column(name=name, type=_data_type(kind, name))


def _data_type(kind: object, name: str) -> types.DataType:
    if isinstance(kind, str):
        try:
            return parse_type(kind)
        except InvalidTableError as error:
            raise InvalidTableError(f"Column '{name}': {error.message}", hint=error.hint) from None
    if isinstance(kind, pa.DataType):
        return data_type_of(kind, path=name)
    if _is_data_type(kind):
        return kind
    raise InvalidTableError(
        f"Column '{name}' has {kind!r} as its type.",
        hint="Write the type as text, such as 'BIGINT'.",
    )


def _is_data_type(kind: object) -> TypeGuard[types.DataType]:
    return isinstance(kind, types.DataType)


# New tables.

OptionValue = str | int | float | bool
# Options of the table itself; every other key is a custom property.
_TABLE_PREFIX = "table."


def descriptor_of(  # noqa: PLR0913 - one argument per trait of a table
    schema: SchemaLike,
    *,
    primary_key: str | Sequence[str] | None,
    partition_by: str | Sequence[str],
    bucket_by: str | Sequence[str],
    buckets: int | None,
    options: Mapping[str, OptionValue],
    comment: str | None,
    auto_increment: str | Sequence[str],
) -> TableDescriptor:
    """Describe a table; whatever the server decides is left unset."""
    described = check_schema(
        schema_of(
            schema, primary_key=names(primary_key or ()), auto_increment=names(auto_increment)
        )
    )
    if buckets is not None and buckets < 1:
        raise RequestError(f"A table needs at least one bucket, not {buckets}.")
    texts = {key: option_text(value) for key, value in options.items()}
    descriptor = TableDescriptor(
        schema=described,
        comment=comment,
        partition_keys=names(partition_by),
        bucket_keys=names(bucket_by),
        bucket_count=buckets,
        properties={key: text for key, text in texts.items() if key.startswith(_TABLE_PREFIX)},
        custom_properties={
            key: text for key, text in texts.items() if not key.startswith(_TABLE_PREFIX)
        },
    )
    # Every server understands them in the schema; Apache Fluss rejects the options.
    table = with_aggregates(descriptor)
    return replace(
        table,
        custom_properties={
            key: text
            for key, text in table.custom_properties.items()
            if not key.startswith(AGGREGATE_PREFIX)
        },
    )


def option_text(value: OptionValue) -> str:
    """Format an option's value for the protocol."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
