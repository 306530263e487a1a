"""Which columns of a table carry statistics."""

from headwater.errors import InvalidOptionError
from headwater.model.schema import Column, Schema
from headwater.model.types import (
    BigIntType,
    BooleanType,
    CharType,
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

EVERY_COLUMN = ("*",)
SUPPORTED_TYPES = (
    BooleanType,
    TinyIntType,
    SmallIntType,
    IntType,
    BigIntType,
    FloatType,
    DoubleType,
    StringType,
    CharType,
    DecimalType,
    DateType,
    TimeType,
    TimestampType,
    TimestampLtzType,
)


def statistics_columns(names: tuple[str, ...], schema: Schema) -> tuple[Column, ...]:
    """Return the columns that `table.statistics.columns` stands for, in its order."""
    if names == EVERY_COLUMN:
        return tuple(column for column in schema.columns if _is_supported(column))
    return tuple(_named(name, schema) for name in names)


def _is_supported(column: Column) -> bool:
    return isinstance(column.type, SUPPORTED_TYPES)


def _named(name: str, schema: Schema) -> Column:
    found = next((column for column in schema.columns if column.name == name), None)
    if found is None:
        raise InvalidOptionError(
            f"'table.statistics.columns' names '{name}', which is no column.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    if not _is_supported(found):
        raise InvalidOptionError(
            f"'table.statistics.columns' names '{name}' of type {found.type}, "
            "for which no statistics are kept."
        )
    return found
