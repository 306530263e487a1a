"""The form of each data type, built once per schema."""

from collections.abc import Sequence

import numpy as np

from headwater.model.arrow import arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
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
    RowType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)
from headwater.rows.compacted.forms import Form
from headwater.rows.compacted.nested_forms import ArrayForm, MapForm, RowForm
from headwater.rows.compacted.number_forms import (
    CoarseTimestamp,
    FineTimestamp,
    Flag,
    Plain,
    SmallDecimal,
    TimeOfDay,
)
from headwater.rows.compacted.row_read import Field
from headwater.rows.compacted.span_forms import (
    DECIMAL_BYTES,
    AnyBytes,
    FixedBytes,
    LargeDecimal,
    Text,
)

_COARSE_PRECISION_MAX = 3
_SMALL_DIGITS_MAX = 18
_BYTE = np.dtype(np.uint8)
_INT = np.dtype(np.int32)
_LONG = np.dtype(np.int64)
_FIXED: dict[type[DataType], np.dtype[np.generic]] = {
    TinyIntType: np.dtype(np.int8),
    SmallIntType: np.dtype(np.int16),
    FloatType: np.dtype(np.float32),
    DoubleType: np.dtype(np.float64),
}
_PACKED: dict[type[DataType], np.dtype[np.generic]] = {
    IntType: _INT,
    DateType: _INT,
    BigIntType: _LONG,
}


def fields_of(types: Sequence[DataType]) -> tuple[Field, ...]:
    """Return the fields of rows of these columns."""
    return tuple(
        _field(f"column {index} ({_kind(each)})", each) for index, each in enumerate(types)
    )


def form_of(data_type: DataType) -> Form:
    """Return the form of a type."""
    arrow = arrow_type(data_type)
    match data_type:
        case BooleanType():
            return Flag(arrow, _BYTE, is_packed=False)
        case StringType() | CharType():
            return Text(arrow, is_inlined=True, reserved_bytes=0)
        case BytesType():
            return AnyBytes(arrow, is_inlined=True, reserved_bytes=0)
        case BinaryType():
            return FixedBytes(arrow, is_inlined=True, reserved_bytes=0)
        case _ if (dtype := _FIXED.get(type(data_type))) is not None:
            return Plain(arrow, dtype, is_packed=False)
        case _ if (dtype := _PACKED.get(type(data_type))) is not None:
            return Plain(arrow, dtype, is_packed=True)
        case ArrayType() | MapType() | RowType():
            return _nested_form(data_type)
        case _:
            return _precise_form(data_type)


def _kind(data_type: DataType) -> str:
    return str(data_type.not_null()).removesuffix(" NOT NULL")


def _nested_form(data_type: ArrayType | MapType | RowType) -> Form:
    arrow = arrow_type(data_type)
    match data_type:
        case ArrayType(element=element):
            item = _field("item", element)
            return ArrayForm(arrow, is_inlined=False, reserved_bytes=0, element=item)
        case MapType(key=key, value=value):
            keys, values = _field("key", key.not_null()), _field("value", value)
            return MapForm(arrow, is_inlined=False, reserved_bytes=0, key=keys, value=values)
        case RowType(fields=fields):
            inner = tuple(_field(field.name, field.type) for field in fields)
            return RowForm(arrow, is_inlined=False, reserved_bytes=0, fields=inner)


def _field(name: str, data_type: DataType) -> Field:
    return Field(name, form_of(data_type), arrow_type(data_type), data_type.nullable)


def _precise_form(data_type: DataType) -> Form:
    arrow = arrow_type(data_type)
    match data_type:
        case TimestampType(precision=precision) | TimestampLtzType(precision=precision):
            if precision > _COARSE_PRECISION_MAX:
                return FineTimestamp(arrow)
            return CoarseTimestamp(arrow, _LONG, is_packed=True)
        case TimeType():
            return TimeOfDay(arrow, _INT, is_packed=True)
        case DecimalType(precision=precision):
            if precision > _SMALL_DIGITS_MAX:
                return LargeDecimal(arrow, is_inlined=False, reserved_bytes=DECIMAL_BYTES)
            return SmallDecimal(arrow, _LONG, is_packed=True)
        case _:
            raise AssertionError(f"{data_type} has no form")
