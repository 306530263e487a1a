"""The aggregate function of a column under the aggregation merge engine, and its JSON form."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from headwater.errors import InvalidTableError
from headwater.model import type_json, types

DELIMITER_DEFAULT = ","
DELIMITER = "delimiter"


class AggregateKind(StrEnum):
    """How the values of one column are folded."""

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
        """Parse a name in any case, with '-' or '_'; the error lists the known ones."""
        try:
            return cls(text.strip().replace("-", "_").lower())
        except ValueError as error:
            raise InvalidTableError(
                f"There is no aggregate function '{text[:100]}'.",
                hint=f"The functions are {', '.join(cls)}.",
            ) from error


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """How the values of one column are folded; only string functions have a delimiter."""

    kind: AggregateKind
    delimiter: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is None:
            return
        if self.kind not in _JOINING:
            raise InvalidTableError(f"The aggregate function '{self.kind}' has no delimiter.")
        if not self.delimiter:
            raise InvalidTableError(f"The delimiter of '{self.kind}' is empty.")

    @property
    def separator(self) -> str:
        """The text between joined values."""
        return DELIMITER_DEFAULT if self.delimiter is None else self.delimiter

    def check(self, data_type: types.DataType) -> None:
        """Reject a column type that the function cannot fold."""
        accepted = _ACCEPTED.get(self.kind)
        if accepted is None or isinstance(data_type, accepted):
            return
        names = ", ".join(kind.__name__.removesuffix("Type").upper() for kind in accepted)
        raise InvalidTableError(
            f"The aggregate function '{self.kind}' does not support {data_type}.",
            hint=f"It supports {names}.",
        )


_JOINING = (AggregateKind.LISTAGG, AggregateKind.STRING_AGG)
_NUMBERS = (
    types.TinyIntType,
    types.SmallIntType,
    types.IntType,
    types.BigIntType,
    types.FloatType,
    types.DoubleType,
    types.DecimalType,
)
_TEXTS = (types.StringType, types.CharType)
_ORDERED = (
    *_TEXTS,
    *_NUMBERS,
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.TimestampLtzType,
)

# Functions that are not listed support every type.
_ACCEPTED: dict[AggregateKind, tuple[type[types.DataType], ...]] = {
    AggregateKind.SUM: _NUMBERS,
    AggregateKind.PRODUCT: _NUMBERS,
    AggregateKind.MAX: _ORDERED,
    AggregateKind.MIN: _ORDERED,
    AggregateKind.LISTAGG: _TEXTS,
    AggregateKind.STRING_AGG: _TEXTS,
    AggregateKind.BOOL_AND: (types.BooleanType,),
    AggregateKind.BOOL_OR: (types.BooleanType,),
    AggregateKind.RBM32: (types.BytesType,),
    AggregateKind.RBM64: (types.BytesType,),
}


def aggregate_of(name: str, parameters: Mapping[str, str]) -> AggregateFunction:
    """Build a function from its name and parameters; the error says what is wrong with them."""
    kind = AggregateKind.of(name)
    if unknown := sorted(parameters.keys() - {DELIMITER}):
        raise InvalidTableError(
            f"The aggregate function '{kind}' has no parameter '{unknown[0][:100]}'."
        )
    return AggregateFunction(kind, parameters.get(DELIMITER))


def aggregate_to_json(function: AggregateFunction) -> type_json.Json:
    """Write a function in the JSON form of the protocol."""
    json: dict[str, type_json.Json] = {"type": str(function.kind)}
    if function.delimiter is not None:
        json["parameters"] = {DELIMITER: function.delimiter}
    return json


def aggregate_from_json(json: type_json.Json) -> AggregateFunction | None:
    """Read a function from the JSON form of the protocol; a column may have none."""
    if json is None:
        return None
    node = type_json.object_of(json, what="agg_function")
    return aggregate_of(
        type_json.text_of(node, "type"),
        type_json.texts_of(node.get("parameters"), what="parameters"),
    )
