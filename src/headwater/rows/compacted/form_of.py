"""The form of each data type, built once per schema."""

from collections.abc import Sequence

import numpy as np

from headwater.model.arrow import arrow_type
from headwater.model.types import (
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
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)
from headwater.rows.compacted.forms import Form
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
        Field(f"column {index} ({each})", form_of(each), arrow_type(each), each.nullable)
        for index, each in enumerate(types)
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
        case TimeType():
            return TimeOfDay(arrow, _INT, is_packed=True)
        case _ if (dtype := _FIXED.get(type(data_type))) is not None:
            return Plain(arrow, dtype, is_packed=False)
        case _ if (dtype := _PACKED.get(type(data_type))) is not None:
            return Plain(arrow, dtype, is_packed=True)
        case _:
            return _precise_form(data_type)


def _precise_form(data_type: DataType) -> Form:
    arrow = arrow_type(data_type)
    match data_type:
        case TimestampType(precision=precision) | TimestampLtzType(precision=precision):
            if precision > _COARSE_PRECISION_MAX:
                return FineTimestamp(arrow)
            return CoarseTimestamp(arrow, _LONG, is_packed=True)
        case DecimalType(precision=precision):
            if precision > _SMALL_DIGITS_MAX:
                return LargeDecimal(arrow, is_inlined=False, reserved_bytes=DECIMAL_BYTES)
            return SmallDecimal(arrow, _LONG, is_packed=True)
        case _:
            raise AssertionError(f"{data_type} has no form")
