"""Schemas as people hold them, made into the schema of a table.

Taken are Arrow schemas and whatever has one (tables, batches, data frames of pandas and Polars,
a Polars schema), Spark's StructType, and mappings from column names to types, which may be text
such as `DECIMAL(10, 2) NOT NULL`, Arrow types or data types.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

import pyarrow as pa

from headwater.client.arrow_types import column_of_field, data_type_of
from headwater.client.frames import is_pandas, pandas_schema, polars_schema
from headwater.client.spark_types import columns_of_struct
from headwater.errors import InvalidTableError
from headwater.model.schema import Column, Schema, check_schema, with_column_ids
from headwater.model.type_text import parse_type
from headwater.model.types import DataType


@runtime_checkable
class ArrowSchema(Protocol):
    """Offer a schema by Arrow's protocol."""

    def __arrow_c_schema__(self) -> object:
        """Return a capsule with a schema."""


@runtime_checkable
class HasArrowSchema(Protocol):
    """Hold an Arrow schema, as tables, batches and readers do."""

    @property
    def schema(self) -> ArrowSchema:
        """Return the schema."""


@runtime_checkable
class SparkStruct(Protocol):
    """Be a StructType of Spark."""

    def jsonValue(self) -> dict[str, object]:  # noqa: N802
        """Return the JSON form of the type."""


TypeLike: TypeAlias = str | DataType | pa.DataType
SchemaLike: TypeAlias = (
    Schema | ArrowSchema | HasArrowSchema | SparkStruct | Mapping[str, TypeLike] | Iterable[object]
)


def schema_of(
    source: SchemaLike,
    *,
    primary_key: Sequence[str] = (),
    auto_increment: Sequence[str] = (),
) -> Schema:
    """Return the schema of a table; columns of the primary key take no nulls."""
    given = source if isinstance(source, Schema) else Schema(columns=tuple(_columns(source)))
    keyed = replace(
        given,
        primary_key=_names(primary_key) or given.primary_key,
        auto_increment=_names(auto_increment) or given.auto_increment,
    )
    check_schema(keyed)
    columns = tuple(
        replace(column, type=column.type.not_null()) if column.name in keyed.primary_key else column
        for column in keyed.columns
    )
    return with_column_ids(replace(keyed, columns=columns))


def _names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple; one alone may come without a list around it."""
    return (names,) if isinstance(names, str) else tuple(names)


def _columns(source: object) -> Iterable[Column]:
    if (arrow := _arrow_schema(source)) is not None:
        return map(column_of_field, arrow)
    struct = source.schema if isinstance(source, HasArrowSchema) else source
    if isinstance(struct, SparkStruct):
        return columns_of_struct(struct.jsonValue())
    if isinstance(source, Mapping):
        return [_column(name, kind) for name, kind in source.items()]
    raise InvalidTableError(
        f"A {type(source).__name__} describes no columns.",
        hint="Give an Arrow schema, a data frame, or a mapping from names to types.",
    )


def _arrow_schema(source: object) -> pa.Schema | None:
    if is_pandas(source):
        return pandas_schema(source)
    if (polars := polars_schema(source)) is not None:
        return polars
    if isinstance(source, HasArrowSchema) and isinstance(source.schema, pa.Schema):
        return source.schema
    return _exported_schema(source) if isinstance(source, ArrowSchema) else None


def _exported_schema(source: ArrowSchema) -> pa.Schema:
    try:
        return pa.schema(source)
    except (pa.ArrowInvalid, ValueError, TypeError) as error:
        raise InvalidTableError(
            f"A {type(source).__name__} describes no columns: {str(error).splitlines()[0]}.",
            hint="Give a schema with named fields.",
        ) from None


def _column(name: object, kind: object) -> Column:
    if not isinstance(name, str):
        raise InvalidTableError(f"A column name must be text, not {name!r}.")
    return Column(name=name, type=_data_type(kind, name))


def _data_type(kind: object, name: str) -> DataType:
    if isinstance(kind, str):
        try:
            return parse_type(kind)
        except InvalidTableError as error:
            raise InvalidTableError(f"Column '{name}': {error.message}", hint=error.hint) from None
    if isinstance(kind, pa.DataType):
        return data_type_of(kind, path=name)
    if _is_data_type(kind):
        return kind
    raise InvalidTableError(
        f"Column '{name}' has {kind!r} for a type.", hint="Write it as text, such as 'BIGINT'."
    )


def _is_data_type(kind: object) -> TypeGuard[DataType]:
    return isinstance(kind, DataType)
