"""The aggregate function of a column under the aggregation merge engine."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from headwater.errors import InvalidTableError
from headwater.model.types import (
    BigIntType,
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

DELIMITER_DEFAULT = ","
DELIMITER = "delimiter"


class AggregateKind(StrEnum):
    """Name the ways to fold the values of one column."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    MIN = "min"
    LAST_VALUE = "last_value"
    LAST_VALUE_IGNORE_NULLS = "last_value_ignore_nulls"
    FIRST_VALUE = "first_value"
    FIRST_VALUE_IGNORE_NULLS = "first_value_ignore_nulls"
    LISTAGG = "listagg"
    STRING_AGG = "string_agg"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    RBM32 = "rbm32"
    RBM64 = "rbm64"

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a name in any case, with '-' or '_', or list the known ones."""
        try:
            return cls(text.strip().replace("-", "_").lower())
        except ValueError as error:
            raise InvalidTableError(
                f"There is no aggregate function '{text[:100]}'.",
                hint=f"The functions are {', '.join(cls)}.",
            ) from error


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """Say how the values of one column are folded; only text takes a delimiter."""

    kind: AggregateKind
    delimiter: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is None:
            return
        if self.kind not in _JOINING:
            raise InvalidTableError(f"The aggregate function '{self.kind}' takes no delimiter.")
        if not self.delimiter:
            raise InvalidTableError(f"The delimiter of '{self.kind}' is empty.")

    @property
    def separator(self) -> str:
        """Return the text that stands between joined values."""
        return DELIMITER_DEFAULT if self.delimiter is None else self.delimiter

    def check(self, data_type: DataType) -> None:
        """Refuse a column type that the function cannot fold."""
        accepted = _ACCEPTED.get(self.kind)
        if accepted is None or isinstance(data_type, accepted):
            return
        names = ", ".join(kind.__name__.removesuffix("Type").upper() for kind in accepted)
        raise InvalidTableError(
            f"The aggregate function '{self.kind}' does not fold {data_type}.",
            hint=f"It folds {names}.",
        )


_JOINING = (AggregateKind.LISTAGG, AggregateKind.STRING_AGG)
_NUMBERS = (
    TinyIntType,
    SmallIntType,
    IntType,
    BigIntType,
    FloatType,
    DoubleType,
    DecimalType,
)
_TEXTS = (StringType, CharType)
_ORDERED = (*_TEXTS, *_NUMBERS, DateType, TimeType, TimestampType, TimestampLtzType)

# Functions that are not listed take every type.
_ACCEPTED: dict[AggregateKind, tuple[type[DataType], ...]] = {
    AggregateKind.SUM: _NUMBERS,
    AggregateKind.PRODUCT: _NUMBERS,
    AggregateKind.MAX: _ORDERED,
    AggregateKind.MIN: _ORDERED,
    AggregateKind.LISTAGG: _TEXTS,
    AggregateKind.STRING_AGG: _TEXTS,
    AggregateKind.BOOL_AND: (BooleanType,),
    AggregateKind.BOOL_OR: (BooleanType,),
    AggregateKind.RBM32: (BytesType,),
    AggregateKind.RBM64: (BytesType,),
}
