"""The columns that an upsert writes."""

from collections.abc import Sequence

import pyarrow as pa

from headwater.errors import InvalidTargetColumnError
from headwater.model.schema import Schema


def target_columns(schema: Schema, columns: Sequence[str] | None) -> tuple[int, ...] | None:
    """Return the positions of the columns to write, or None for all.

    Columns that the server numbers are never written, so the others are named instead of all.
    """
    if columns is None:
        if not schema.auto_increment:
            return None
        columns = [name for name in schema.names if name not in schema.auto_increment]
    _check(schema, columns)
    return tuple(sorted(map(schema.index_of, columns)))


def check_unnumbered(batch: pa.RecordBatch, schema: Schema) -> None:
    """Refuse values for columns that the server numbers."""
    for name in schema.auto_increment:
        if name in batch.schema.names and batch.column(name).null_count < batch.num_rows:
            raise InvalidTargetColumnError(
                f"The column '{name}' is numbered by the server, so it cannot be written.",
                hint="Leave it out.",
            )


def _check(schema: Schema, columns: Sequence[str]) -> None:
    if unknown := [name for name in columns if name not in schema.names]:
        raise InvalidTargetColumnError(
            f"There is no column '{unknown[0]}'.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    if missing := [name for name in schema.primary_key if name not in columns]:
        raise InvalidTargetColumnError(
            f"The columns to write leave out '{missing[0]}'.",
            hint="Name every column of the primary key.",
        )
    if numbered := [name for name in columns if name in schema.auto_increment]:
        raise InvalidTargetColumnError(
            f"The column '{numbered[0]}' is numbered by the server, so it cannot be written.",
            hint="Leave it out.",
        )
