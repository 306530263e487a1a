"""Columns that were read from a file, made into rows that fit a table."""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cli.typed import typed
from headwater.errors import InvalidValueError

NAMES_SHOWN_MAX = 10


def checked_batch(
    columns: Mapping[str, pa.Array], schema: pa.Schema, *, place: Callable[[int], str]
) -> pa.RecordBatch:
    """Give columns their types; a text that is no value, or a null too many, is named."""
    fields = [schema.field(name) for name in columns]
    arrays = [_checked(columns[field.name], field, place) for field in fields]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def check_names(names: Sequence[str], schema: pa.Schema, *, place: str) -> None:
    """Refuse a column that the table does not have."""
    if unknown := [name for name in names if name not in schema.names]:
        known = [*schema.names[:NAMES_SHOWN_MAX], *["…"][: len(schema) - NAMES_SHOWN_MAX]]
        raise InvalidValueError(
            f"{place}: there is no column '{unknown[0]}'.",
            hint=f"The columns are {', '.join(known)}.",
        )


def _checked(column: pa.Array, field: pa.Field, place: Callable[[int], str]) -> pa.Array:
    def place_of(row: int) -> str:
        return f"{place(row)}, column '{field.name}': "

    values = column if column.type == field.type else typed(column, field.type, place=place_of)
    if not field.nullable and values.null_count:
        row = pc.index(pc.is_null(values), pa.scalar(value=True)).as_py()
        raise InvalidValueError(f"{place_of(row)}the column may not be null.")
    return values
