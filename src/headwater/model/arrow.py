"""The Arrow types that represent Fluss data types in record batches."""

import pyarrow as pa

from headwater.model import types
from headwater.model.schema import Schema

_PLAIN: dict[type[types.DataType], pa.DataType] = {
    types.BooleanType: pa.bool_(),
    types.TinyIntType: pa.int8(),
    types.SmallIntType: pa.int16(),
    types.IntType: pa.int32(),
    types.BigIntType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.StringType: pa.string(),
    types.CharType: pa.string(),
    types.BytesType: pa.binary(),
    types.DateType: pa.date32(),
}
_MILLIS_PRECISION_MAX = 3
_MICROS_PRECISION_MAX = 6


def arrow_schema(schema: Schema) -> pa.Schema:
    """Map the columns of a table to an Arrow schema."""
    return pa.schema([_arrow_field(column.name, column.type) for column in schema.columns])


def arrow_type(data_type: types.DataType) -> pa.DataType:
    """Map a data type to an Arrow type."""
    match data_type:
        case types.BinaryType(length=length):
            return pa.binary(length)
        case types.DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case types.TimeType(precision=precision):
            kind = pa.time32 if precision <= _MILLIS_PRECISION_MAX else pa.time64
            return kind(time_unit(precision))
        case types.TimestampType(precision=precision):
            return pa.timestamp(time_unit(precision))
        case types.TimestampLtzType(precision=precision):
            return pa.timestamp(time_unit(precision), "UTC")
        case types.ArrayType() | types.MapType() | types.RowType():
            return _nested_type(data_type)
        case _:
            return _PLAIN[type(data_type)]


def _nested_type(data_type: types.ArrayType | types.MapType | types.RowType) -> pa.DataType:
    match data_type:
        case types.ArrayType(element=element):
            return pa.list_(_arrow_field("item", element))
        case types.MapType(key=key, value=value):
            return pa.map_(_arrow_field("key", key.not_null()), _arrow_field("value", value))
        case types.RowType(fields=fields):
            return pa.struct([_arrow_field(field.name, field.type) for field in fields])


def _arrow_field(name: str, data_type: types.DataType) -> pa.Field:
    return pa.field(name, arrow_type(data_type), nullable=data_type.nullable)


def time_unit(precision: int) -> str:
    """Pick the coarsest Arrow time unit that keeps the precision."""
    if precision == 0:
        return "s"
    if precision <= _MILLIS_PRECISION_MAX:
        return "ms"
    return "us" if precision <= _MICROS_PRECISION_MAX else "ns"
