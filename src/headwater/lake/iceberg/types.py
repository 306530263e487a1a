"""Iceberg types, the Arrow types that represent them in files, and casts to those."""

from collections.abc import Callable
from itertools import count

import numpy as np
import pyarrow as pa
from pyiceberg import types as ice

from headwater.errors import UnsupportedError
from headwater.model import types

# Data types in Iceberg, and the Arrow types that represent them in Parquet files.

FIELD_ID = b"PARQUET:field_id"
_PRECISION_MAX = 6
_PLAIN: dict[type[types.DataType], ice.PrimitiveType] = {
    types.BooleanType: ice.BooleanType(),
    types.TinyIntType: ice.IntegerType(),
    types.SmallIntType: ice.IntegerType(),
    types.IntType: ice.IntegerType(),
    types.BigIntType: ice.LongType(),
    types.FloatType: ice.FloatType(),
    types.DoubleType: ice.DoubleType(),
    types.StringType: ice.StringType(),
    types.CharType: ice.StringType(),
    types.BytesType: ice.BinaryType(),
    types.DateType: ice.DateType(),
}
_ARROW: dict[type[ice.IcebergType], pa.DataType] = {
    ice.BooleanType: pa.bool_(),
    ice.IntegerType: pa.int32(),
    ice.LongType: pa.int64(),
    ice.FloatType: pa.float32(),
    ice.DoubleType: pa.float64(),
    ice.StringType: pa.string(),
    ice.BinaryType: pa.binary(),
    ice.UUIDType: pa.binary(16),
    ice.DateType: pa.date32(),
    ice.TimeType: pa.time64("us"),
    ice.TimestampType: pa.timestamp("us"),
    ice.TimestamptzType: pa.timestamp("us", "UTC"),
}

NextId = Callable[[], int]


def iceberg_type(
    data_type: types.DataType, *, column: str, next_id: NextId | None = None
) -> ice.IcebergType:
    """Convert a data type to Iceberg's; `next_id` numbers the fields inside."""
    match data_type:
        case types.BinaryType(length=length):
            return ice.FixedType(length)
        case types.DecimalType(precision=precision, scale=scale):
            return ice.DecimalType(precision, scale)
        case types.TimeType(precision=precision):
            return _checked(data_type, precision, ice.TimeType(), column)
        case types.TimestampType(precision=precision):
            return _checked(data_type, precision, ice.TimestampType(), column)
        case types.TimestampLtzType(precision=precision):
            return _checked(data_type, precision, ice.TimestamptzType(), column)
        case types.ArrayType() | types.MapType() | types.RowType():
            return _nested(data_type, column, next_id or count().__next__)
        case _:
            return _PLAIN[type(data_type)]


def _nested(
    data_type: types.ArrayType | types.MapType | types.RowType, column: str, next_id: NextId
) -> ice.IcebergType:
    match data_type:
        case types.ArrayType(element=element):
            return ice.ListType(
                element_id=next_id(),
                element_type=iceberg_type(element, column=column, next_id=next_id),
                element_required=not element.nullable,
            )
        case types.MapType(key=key, value=value):
            key_id, value_id = next_id(), next_id()
            return ice.MapType(
                key_id=key_id,
                key_type=iceberg_type(key, column=column, next_id=next_id),
                value_id=value_id,
                value_type=iceberg_type(value, column=column, next_id=next_id),
                value_required=not value.nullable,
            )
        case types.RowType(fields=fields):
            ids = [next_id() for _ in fields]
            return ice.StructType(
                *(
                    ice.NestedField(
                        field_id=field_id,
                        name=field.name,
                        field_type=iceberg_type(field.type, column=column, next_id=next_id),
                        required=not field.type.nullable,
                        doc=field.description,
                    )
                    for field_id, field in zip(ids, fields, strict=True)
                )
            )


def _checked(
    data_type: types.DataType, precision: int, found: ice.IcebergType, column: str
) -> ice.IcebergType:
    if precision > _PRECISION_MAX:
        name = type(data_type).__name__.removesuffix("Type").upper()
        raise UnsupportedError(
            f"Iceberg stores microseconds, but the column '{column}' is a {name}({precision}).",
            hint=(f"Use a precision of at most {_PRECISION_MAX}, or tier the table to Paimon."),
        )
    return found


def parquet_schema(fields: tuple[ice.NestedField, ...]) -> pa.Schema:
    """The Arrow schema for Parquet files, with field ids."""
    return pa.schema([parquet_field(field) for field in fields])


def parquet_field(field: ice.NestedField) -> pa.Field:
    """The Arrow field for a field of an Iceberg schema, with its id."""
    return _arrow_field(field.name, field.field_type, field.field_id, required=field.required)


def _arrow_field(name: str, kind: ice.IcebergType, field_id: int, *, required: bool) -> pa.Field:
    metadata = {FIELD_ID: str(field_id).encode()}
    return pa.field(name, _arrow_type(kind), nullable=not required, metadata=metadata)


def _arrow_type(kind: ice.IcebergType) -> pa.DataType:
    match kind:
        case ice.FixedType():
            return pa.binary(len(kind))
        case ice.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case ice.ListType():
            return pa.list_(
                _arrow_field(
                    "element", kind.element_type, kind.element_id, required=kind.element_required
                )
            )
        case ice.MapType():
            return pa.map_(
                _arrow_field("key", kind.key_type, kind.key_id, required=True),
                _arrow_field("value", kind.value_type, kind.value_id, required=kind.value_required),
            )
        case ice.StructType():
            return pa.struct([parquet_field(field) for field in kind.fields])
        case _:
            return _plain_arrow_type(kind)


def _plain_arrow_type(kind: ice.IcebergType) -> pa.DataType:
    found = _ARROW.get(type(kind))
    if found is None:
        raise UnsupportedError(
            f"The Iceberg table has a column of type {kind}, which Headwater cannot write.",
            hint="Drop that column in the lake.",
        )
    return found


def fitted(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast values to a type that may differ in width, unit, inner names, ids or nullability.

    Fields of rows are matched by their order. Raises `pa.ArrowInvalid` for a value that the type
    cannot hold.
    """
    if values.type.equals(wanted, check_metadata=True):
        return values
    if pa.types.is_struct(wanted):
        children = [fitted(values.field(at), field.type) for at, field in enumerate(wanted)]
        return _built(wanted, values, children=children)
    if pa.types.is_map(wanted):
        entries = pa.struct([wanted.key_field, wanted.item_field])
        pairs = [
            fitted(values.keys, wanted.key_type),
            fitted(values.items, wanted.item_type),
        ]
        whole = pa.Array.from_buffers(entries, len(pairs[0]), [None], children=pairs)
        return _built(wanted, values, children=[whole], offsets=values.offsets)
    if pa.types.is_list(wanted):
        children = [fitted(values.values, wanted.value_type)]
        return _built(wanted, values, children=children, offsets=values.offsets)
    return values.cast(wanted)


def fitted_batch(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast the columns of a batch to the names and types of a schema."""
    columns = [
        fitted(column, field.type) for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _built(
    wanted: pa.DataType,
    values: pa.Array,
    *,
    children: list[pa.Array],
    offsets: pa.Int32Array | None = None,
) -> pa.Array:
    """Put children under an array's nulls; Arrow's own casts reject nulls under null rows."""
    valid = values.is_valid().buffers()[1] if values.null_count else None
    buffers = [valid]
    if offsets is not None:
        buffers.append(pa.py_buffer(np.ascontiguousarray(offsets.to_numpy())))
    return pa.Array.from_buffers(wanted, len(values), buffers, children=children)
