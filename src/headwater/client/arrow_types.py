"""The data type of a table that an Arrow type stands for."""

import pyarrow as pa

from headwater.errors import InvalidTableError
from headwater.model.schema import Column
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
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

_COMMENT = b"comment"
_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_PLAIN: dict[pa.DataType, DataType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): TinyIntType(),
    pa.int16(): SmallIntType(),
    pa.int32(): IntType(),
    pa.int64(): BigIntType(),
    # A type without sign takes the next larger one, which holds all of its numbers.
    pa.uint8(): SmallIntType(),
    pa.uint16(): IntType(),
    pa.uint32(): BigIntType(),
    pa.float16(): FloatType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.string_view(): StringType(),
    pa.binary(): BytesType(),
    pa.large_binary(): BytesType(),
    pa.binary_view(): BytesType(),
    pa.date32(): DateType(),
    pa.date64(): DateType(),
}
_HINTS: dict[pa.DataType, str] = {
    pa.uint64(): "Use DECIMAL(20, 0), or BIGINT if the numbers stay below 2**63.",
    pa.null(): "A column without values has no type yet: cast it to the one you mean.",
}


def column_of_field(field: pa.Field) -> Column:
    """Return the column that an Arrow field describes, with the comment in its metadata."""
    return Column(name=field.name, type=_field_type(field, field.name), comment=_comment(field))


def data_type_of(kind: pa.DataType, *, path: str) -> DataType:
    """Return the data type that an Arrow type stands for, or say that there is none."""
    kind = _unpacked(kind)
    if (plain := _PLAIN.get(kind)) is not None:
        return plain
    found = _nested_type(kind, path) if pa.types.is_nested(kind) else _precise_type(kind)
    if found is None:
        raise InvalidTableError(
            f"The column '{path}' has the Arrow type {kind}, which no table can have.",
            hint=_HINTS.get(kind, "Cast it to another type first."),
        )
    return found


def _unpacked(kind: pa.DataType) -> pa.DataType:
    """Return a type without extension, dictionary or runs around it."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _precise_type(kind: pa.DataType) -> DataType | None:
    if pa.types.is_timestamp(kind):
        precision = _PRECISIONS[kind.unit]
        timestamp = TimestampType if kind.tz is None else TimestampLtzType
        return timestamp(precision=precision)
    if pa.types.is_time(kind):
        return TimeType(precision=_PRECISIONS[kind.unit])
    if pa.types.is_decimal(kind):
        return DecimalType(precision=kind.precision, scale=kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return BinaryType(length=kind.byte_width)
    return None


def _nested_type(kind: pa.DataType, path: str) -> DataType | None:
    if pa.types.is_struct(kind):
        return RowType(fields=tuple(_row_field(field, path) for field in kind))
    if pa.types.is_map(kind):
        key = _field_type(kind.key_field, f"{path}.key")
        return MapType(key=key.not_null(), value=_field_type(kind.item_field, f"{path}.value"))
    if hasattr(kind, "value_field"):
        return ArrayType(element=_field_type(kind.value_field, f"{path}.item"))
    return None


def _row_field(field: pa.Field, path: str) -> RowField:
    data_type = _field_type(field, f"{path}.{field.name}")
    return RowField(name=field.name, type=data_type, description=_comment(field))


def _field_type(field: pa.Field, path: str) -> DataType:
    data_type = data_type_of(field.type, path=path)
    return data_type if field.nullable else data_type.not_null()


def _comment(field: pa.Field) -> str | None:
    comment = (field.metadata or {}).get(_COMMENT)
    return None if comment is None else comment.decode(errors="replace")
