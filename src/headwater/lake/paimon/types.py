"""Paimon types and values: in its schemas, its Parquet files and its binary rows."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from headwater.errors import CorruptFileError, InvalidValueError, UnsupportedError
from headwater.model import DataType, Schema
from headwater.model.arrow import arrow_type
from headwater.model.predicate import Literal
from headwater.model.type_json import Json
from headwater.model.types import (
    ArrayType,
    BinaryType,
    CharType,
    DecimalType,
    MapType,
    RowType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)
from headwater.rows.aligned_row import decode_row, encode_row

# Data types in Paimon's schemas, and in its Parquet files.

_MILLIS = pa.time32("ms")
_MILLIS_PRECISION_MAX = 3
_KEY_PREFIX = "_KEY_"
_SYSTEM_NAMES = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})
_ALIASES = {"INTEGER": "INT", "VARCHAR(2147483647)": "STRING", "VARBINARY(2147483647)": "BYTES"}

NextId = Callable[[], int]


def paimon_type(data_type: DataType, next_id: NextId) -> Json:
    """Encode a type for the JSON of a schema; `next_id` numbers the fields inside."""
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
    """A schema's type as text without field ids, for comparison."""
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
    """Raise for a column with a name that Paimon reserves."""
    for name in schema.names:
        if name in _SYSTEM_NAMES or name.startswith(_KEY_PREFIX):
            raise UnsupportedError(
                f"The column name '{name}' is reserved by Paimon.",
                hint="Rename the column, or tier the table to Iceberg.",
            )


def check_types(schema: Schema) -> None:
    """Raise for a column that Paimon cannot store exactly."""
    fine = [each.name for each in schema.columns if any(map(_is_fine_moment, _parts(each.type)))]
    coarse = [
        each.name for each in schema.columns if any(map(_is_coarse_moment, _parts(each.type)))
    ]
    if fine and coarse:
        # pyarrow writes either all timestamps of a file as Paimon stores nanoseconds, or none.
        raise UnsupportedError(
            f"The column '{fine[0]}' is finer than microseconds and '{coarse[0]}' is not; "
            "a Paimon file cannot hold both.",
            hint=("Use a precision of 6 or less for all of them, or of 7 to 9 for all of them."),
        )
    for column in schema.columns:
        if any(_is_fine_time(each) for each in _parts(column.type)):
            raise UnsupportedError(
                f"The column '{column.name}' is finer than milliseconds, which Paimon "
                "cannot store for times of day.",
                hint="Use TIME(3) or BIGINT, or tier the table to Iceberg.",
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
    """Tell whether values contain timestamps in nanoseconds, at any depth."""
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
    """The Arrow type that pyarrow writes like Paimon's own writers do."""
    match data_type:
        case BinaryType():
            return pa.binary()
        case TimeType():
            # Paimon stores times as milliseconds of the day, whatever the precision.
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
    """The Arrow schema of rows in files; all columns are nullable.

    Readers take nullability from the table's schema; in files it would only be one more difference
    between old and new ones.
    """
    return pa.schema([pa.field(each.name, file_type(each.type)) for each in schema.columns])


def to_file_rows(rows: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Cast rows to the types of files; raises for a value that does not fit."""
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
            f"The column '{field.name}' contains a value that Paimon cannot hold: {fault}."
        ) from fault


# Paimon's binary rows, in which manifests hold keys, partitions and column bounds.
#
# A binary row is an aligned row after its number of fields (four bytes, big-endian).

_COUNT = struct.Struct(">i")
_SLOT_BYTES = 8
_RESERVED_BITS = 8
_INLINE_MARK = 0x80

EMPTY_ROW = _COUNT.pack(0) + bytes(_SLOT_BYTES)
"""A row without fields."""


def to_binary_row(types: Sequence[pa.DataType], values: Sequence[Literal]) -> bytes:
    """Encode literals of these types as a row."""
    return _COUNT.pack(len(types)) + encode_row(types, values)


def from_binary_row(types: Sequence[pa.DataType], data: bytes) -> tuple[Literal, ...]:
    """Decode the literals of a row; None for a null and for what a row cannot hold."""
    if not types:
        return ()
    if len(data) < _COUNT.size or _COUNT.unpack_from(data)[0] != len(types):
        raise CorruptFileError(f"A row of a manifest does not have {len(types)} fields.")
    row = data[_COUNT.size :]
    return tuple(
        _bytes_at(row, index, count=len(types)) if is_bytes(data_type) else value
        for index, (data_type, value) in enumerate(zip(types, decode_row(types, row), strict=True))
    )


def is_bytes(data_type: pa.DataType) -> bool:
    """Tell whether values are bytes, of any or of a fixed length."""
    return bool(pa.types.is_binary(data_type) or pa.types.is_fixed_size_binary(data_type))


def _bytes_at(row: bytes, index: int, *, count: int) -> bytes | None:
    byte, bit = divmod(index + _RESERVED_BITS, 8)
    if row[byte] >> bit & 1:
        return None
    slot = (count + _RESERVED_BITS + 63) // 64 * 8 + _SLOT_BYTES * index
    mark = row[slot + _SLOT_BYTES - 1]
    if mark & _INLINE_MARK:
        return row[slot : slot + mark - _INLINE_MARK]
    (packed,) = struct.unpack_from("<Q", row, slot)
    return row[packed >> 32 : (packed >> 32) + (packed & 0xFFFFFFFF)]
