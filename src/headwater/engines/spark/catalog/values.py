"""Values as Spark keeps them within, as values that filters compare columns with."""

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation

from headwater.client.reading.literals import Value
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

# Spark keeps times to the microsecond: finer ones are not what it compares.
SPARK_PRECISION_MAX = 6
_NANOS_PER_MICRO = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def value_of(given: object, data_type: DataType) -> Value:
    """Return a value of Spark for a column, or None if the column is better left to Spark."""
    match data_type:
        case BooleanType():
            return given if isinstance(given, bool) else None
        case TinyIntType() | SmallIntType() | IntType() | BigIntType():
            return given if isinstance(given, int) else None
        case FloatType() | DoubleType():
            return given if isinstance(given, float) and not math.isnan(given) else None
        case StringType() | CharType():
            return given if isinstance(given, str) else None
        case BytesType() | BinaryType():
            return bytes(given) if isinstance(given, bytes | bytearray) else None
        case DecimalType():
            return _decimal(given)
        case _:
            return _moment(given, data_type)


def _decimal(given: object) -> Decimal | None:
    try:
        return Decimal(given) if isinstance(given, str | Decimal) else None
    except InvalidOperation:
        return None


def _moment(given: object, data_type: DataType) -> date | time | datetime | None:
    if not isinstance(given, int):
        return None
    try:
        match data_type:
            case DateType():
                return date.fromordinal(_EPOCH.toordinal() + given)
            case TimeType(precision=precision) if precision <= SPARK_PRECISION_MAX:
                return _time(given)
            case TimestampType(precision=precision) if precision <= SPARK_PRECISION_MAX:
                return (_EPOCH + timedelta(microseconds=given)).replace(tzinfo=None)
            case TimestampLtzType(precision=precision) if precision <= SPARK_PRECISION_MAX:
                return _EPOCH + timedelta(microseconds=given)
            case _:
                return None
    except (ValueError, OverflowError):
        # Python's calendar is shorter than Spark's.
        return None


def _time(nanos: int) -> time | None:
    micros, rest = divmod(nanos, _NANOS_PER_MICRO)
    return None if rest else (_EPOCH + timedelta(microseconds=micros)).time()
