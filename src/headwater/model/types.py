"""The data types of Fluss as frozen values."""

from dataclasses import dataclass, replace
from typing import Self

from headwater.errors import InvalidTableError

DECIMAL_PRECISION_MAX = 38
TIME_PRECISION_MAX = 9
NESTING_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Type:
    nullable: bool = True

    def not_null(self) -> Self:
        """Make the same type NOT NULL."""
        return replace(self, nullable=False)

    def __str__(self) -> str:
        name = type(self).__name__.removesuffix("Type").upper()
        return name if self.nullable else f"{name} NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanType(_Type):
    """True or false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyIntType(_Type):
    """A signed 8-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallIntType(_Type):
    """A signed 16-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntType(_Type):
    """A signed 32-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BigIntType(_Type):
    """A signed 64-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatType(_Type):
    """A 32-bit float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleType(_Type):
    """A 64-bit float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StringType(_Type):
    """Text of any length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesType(_Type):
    """Bytes of any length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DateType(_Type):
    """A calendar day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CharType(_Type):
    """Text of a fixed number of characters."""

    length: int = 1

    def __post_init__(self) -> None:
        _check_range("CHAR length", self.length, low=1, high=2**31 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryType(_Type):
    """A fixed number of bytes."""

    length: int = 1

    def __post_init__(self) -> None:
        _check_range("BINARY length", self.length, low=1, high=2**31 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalType(_Type):
    """An exact decimal number."""

    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        _check_range("DECIMAL precision", self.precision, low=1, high=DECIMAL_PRECISION_MAX)
        _check_range("DECIMAL scale", self.scale, low=0, high=self.precision)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeType(_Type):
    """A time of day."""

    precision: int = 0

    def __post_init__(self) -> None:
        _check_range("TIME precision", self.precision, low=0, high=TIME_PRECISION_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampType(_Type):
    """A wall-clock date and time without a zone."""

    precision: int = 6

    def __post_init__(self) -> None:
        _check_range("TIMESTAMP precision", self.precision, low=0, high=TIME_PRECISION_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampLtzType(_Type):
    """An instant on the time line."""

    precision: int = 6

    def __post_init__(self) -> None:
        _check_range("TIMESTAMP_LTZ precision", self.precision, low=0, high=TIME_PRECISION_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType(_Type):
    """A list of elements of one type."""

    element: "DataType"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType(_Type):
    """Pairs of key and value."""

    key: "DataType"
    value: "DataType"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowField:
    """The name and type of one field of a row type."""

    name: str
    type: "DataType"
    description: str | None = None
    field_id: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RowType(_Type):
    """Several named fields."""

    fields: tuple[RowField, ...]


DataType = (
    BooleanType
    | TinyIntType
    | SmallIntType
    | IntType
    | BigIntType
    | FloatType
    | DoubleType
    | StringType
    | BytesType
    | DateType
    | CharType
    | BinaryType
    | DecimalType
    | TimeType
    | TimestampType
    | TimestampLtzType
    | ArrayType
    | MapType
    | RowType
)

NESTED_TYPES = (ArrayType, MapType, RowType)


def _check_range(what: str, value: int, *, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidTableError(f"{what} must be between {low} and {high}, not {value}.")
