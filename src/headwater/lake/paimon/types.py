"""Data types as Paimon's schemas name them, and as its Parquet files hold them."""

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from headwater.errors import InvalidValueError, UnsupportedError
from headwater.model.arrow import arrow_type
from headwater.model.schema import Schema
from headwater.model.type_json import Json
from headwater.model.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    RowType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)

_MILLIS = pa.time32("ms")
_MILLIS_PRECISION_MAX = 3
_KEY_PREFIX = "_KEY_"
_SYSTEM_NAMES = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})
_ALIASES = {"INTEGER": "INT", "VARCHAR(2147483647)": "STRING", "VARBINARY(2147483647)": "BYTES"}

NextId = Callable[[], int]


def paimon_type(data_type: DataType, next_id: NextId) -> Json:
    """Return a type as it stands in the JSON of a schema; fields of rows take the next ids."""
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case ArrayType(element=element):
            return {"type": f"ARRAY{suffix}", "element": paimon_type(element, next_id)}
        case MapType(key=key, value=value):
            return {
                "type": f"MAP{suffix}",
                "key": paimon_type(key.not_null(), next_id),
                "value": paimon_type(value, next_id),
            }
        case RowType(fields=fields):
            members: list[Json] = [
                {"id": next_id(), "name": field.name, "type": paimon_type(field.type, next_id)}
                for field in fields
            ]
            return {"type": f"ROW{suffix}", "fields": members}
        case _:
            return f"{_atomic(data_type)}{suffix}"


def _atomic(data_type: DataType) -> str:
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
            return f"TIMESTAMP({precision}) WITH LOCAL TIME ZONE"
        case _:
            return type(data_type).__name__.removesuffix("Type").upper()


def type_text(node: Json, *, with_nullability: bool = True) -> str:
    """Return a type of a schema as text without field ids, alike for alike types."""
    match node:
        case str():
            return _atomic_text(node, with_nullability=with_nullability)
        case dict() if isinstance(name := node.get("type"), str):
            kind, _, suffix = name.upper().partition(" ")
            inner = ", ".join(_member_texts(node))
            shown = f" {suffix}" if suffix and with_nullability else ""
            return (
                f"{kind}<{inner}>{shown}"
                if inner
                else _atomic_text(name, with_nullability=with_nullability)
            )
        case _:
            return str(node)


def _atomic_text(text: str, *, with_nullability: bool) -> str:
    name = text.upper().strip()
    suffix = " NOT NULL" if name.endswith(" NOT NULL") else ""
    name = name.removesuffix(" NOT NULL").replace(", ", ",")
    if name.startswith("TIMESTAMP_LTZ"):
        name = f"TIMESTAMP{name.removeprefix('TIMESTAMP_LTZ')} WITH LOCAL TIME ZONE"
    name = _ALIASES.get(name, name)
    return f"{name}{suffix}" if with_nullability else name


def _member_texts(node: Mapping[str, Json]) -> list[str]:
    members = [type_text(node[key]) for key in ("element", "key", "value") if key in node]
    match node.get("fields"):
        case [*fields]:
            return members + [_field_text(field) for field in fields]
        case _:
            return members


def _field_text(node: Json) -> str:
    match node:
        case {"name": str(name), "type": data_type}:
            return f"{name} {type_text(data_type)}"
        case _:
            return str(node)


def check_names(schema: Schema) -> None:
    """Say which column has a name that Paimon uses itself."""
    for name in schema.names:
        if name in _SYSTEM_NAMES or name.startswith(_KEY_PREFIX):
            raise UnsupportedError(
                f"The column '{name}' has a name that Paimon uses itself.",
                hint="Rename the column, or tier the table to Iceberg.",
            )


def check_types(schema: Schema) -> None:
    """Say which column Paimon cannot hold exactly."""
    fine = [each.name for each in schema.columns if any(map(_is_fine_moment, _parts(each.type)))]
    coarse = [
        each.name for each in schema.columns if any(map(_is_coarse_moment, _parts(each.type)))
    ]
    if fine and coarse:
        # Parquet files of pyarrow keep either all moments as Paimon keeps nanoseconds, or none.
        raise UnsupportedError(
            f"The column '{fine[0]}' holds moments finer than microseconds beside '{coarse[0]}',"
            " which does not; files of Paimon cannot hold both.",
            hint="Give all of them a precision of 6 or less, or all of them one of 7 to 9.",
        )
    for column in schema.columns:
        if any(_is_fine_time(each) for each in _parts(column.type)):
            raise UnsupportedError(
                f"The column '{column.name}' holds times of day finer than milliseconds,"
                " which Paimon cannot hold.",
                hint="Make it a TIME(3) or a BIGINT, or tier the table to Iceberg.",
            )


def _is_fine_time(data_type: DataType) -> bool:
    return isinstance(data_type, TimeType) and data_type.precision > _MILLIS_PRECISION_MAX


def _is_fine_moment(data_type: DataType) -> bool:
    return _is_moment(data_type) and arrow_type(data_type).unit == "ns"


def _is_coarse_moment(data_type: DataType) -> bool:
    return _is_moment(data_type) and not _is_fine_moment(data_type)


def _is_moment(data_type: DataType) -> bool:
    return isinstance(data_type, TimestampType | TimestampLtzType)


def has_nanoseconds(data_type: pa.DataType) -> bool:
    """Tell whether values hold moments of nanoseconds, at any depth."""
    if pa.types.is_timestamp(data_type):
        return bool(data_type.unit == "ns")
    fields = [data_type.field(at) for at in range(data_type.num_fields)]
    return any(has_nanoseconds(field.type) for field in fields)


def _parts(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    match data_type:
        case ArrayType(element=element):
            yield from _parts(element)
        case MapType(key=key, value=value):
            yield from _parts(key)
            yield from _parts(value)
        case RowType(fields=fields):
            for field in fields:
                yield from _parts(field.type)
        case _:
            return


def file_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type that becomes what Paimon's own writers put into Parquet."""
    match data_type:
        case BinaryType():
            return pa.binary()
        case TimeType():
            # Paimon keeps times as milliseconds of the day, whatever the precision.
            return _MILLIS
        case TimestampType(precision=0):
            return pa.timestamp("ms")
        case TimestampLtzType(precision=0):
            return pa.timestamp("ms", "UTC")
        case ArrayType(element=element):
            return pa.list_(pa.field("item", file_type(element), nullable=element.nullable))
        case MapType(key=key, value=value):
            return pa.map_(
                pa.field("key", file_type(key), nullable=False),
                pa.field("value", file_type(value), nullable=value.nullable),
            )
        case RowType(fields=fields):
            return pa.struct(
                [
                    pa.field(field.name, file_type(field.type), nullable=field.type.nullable)
                    for field in fields
                ]
            )
        case _:
            return arrow_type(data_type)


def file_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of rows as they stand in files; all columns may be null.

    A reader takes nullability from the schema of the table; in files, it would only be one more
    thing that older files have otherwise.
    """
    return pa.schema([pa.field(each.name, file_type(each.type)) for each in schema.columns])


def to_file_rows(rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return rows with the types of files, or say which value they cannot hold."""
    columns = [
        column if column.type == field.type else _cast(column, field)
        for column, field in zip(rows.columns, target, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as fault:
        raise InvalidValueError(
            f"The column '{field.name}' holds a value that Paimon cannot hold: {fault}."
        ) from fault
