"""The bounds of columns in data files, read from metadata as values that filters compare with."""

import struct

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.types import PrimitiveType

from headwater.lake.split import ColumnBounds
from headwater.model.predicate import Literal
from headwater.model.types import (
    DataType,
    DoubleType,
    FloatType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)

_MICROS_PER_MILLI = 1_000
_NANOS_PER_MICRO = 1_000


def column_bounds(
    file: DataFile, *, column_id: int, data_type: DataType, field: tuple[int, PrimitiveType]
) -> ColumnBounds | None:
    """Return what metadata says of a column; `field`: the id and the type that a file has of it."""
    field_id, kind = field
    nulls = (file.null_value_counts or {}).get(field_id)
    lower = upper = None
    if not _may_hold_nan(file, field_id, data_type):
        lower = _literal((file.lower_bounds or {}).get(field_id), kind, data_type)
        upper = _literal((file.upper_bounds or {}).get(field_id), kind, data_type, is_upper=True)
    if lower is None and upper is None and nulls is None:
        return None
    return ColumnBounds(column_id=column_id, lower=lower, upper=upper, null_count=nulls)


def _may_hold_nan(file: DataFile, field_id: int, data_type: DataType) -> bool:
    if not isinstance(data_type, FloatType | DoubleType):
        return False
    return (file.nan_value_counts or {}).get(field_id) != 0


def _literal(
    raw: bytes | None, kind: PrimitiveType, data_type: DataType, *, is_upper: bool = False
) -> Literal:
    if raw is None:
        return None
    try:
        value: Literal = from_bytes(kind, raw)
    except (struct.error, ValueError, TypeError):
        # Metadata of others, in a form that is not understood here, says nothing.
        return None
    match value, data_type:
        case int(), TimeType():
            return -(-value // _MICROS_PER_MILLI) if is_upper else value // _MICROS_PER_MILLI
        case int(), TimestampType() | TimestampLtzType():
            return value * _NANOS_PER_MICRO
        case float(), _ if value == 0:
            return 0.0 if is_upper else -0.0
        case _:
            return value
