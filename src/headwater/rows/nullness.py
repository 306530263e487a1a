"""The promise of columns and nested fields that they hold no nulls."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidValueError


def columns_to_check(schema: pa.Schema) -> tuple[int, ...]:
    """Return the positions of columns that promise something of their nulls."""
    return tuple(
        index
        for index, field in enumerate(schema)
        if not field.nullable or pa.types.is_nested(field.type)
    )


def check_nulls(rows: pa.RecordBatch, positions: Sequence[int]) -> None:
    """Refuse rows with a null where the schema allows none, in the columns at these positions."""
    for position in positions:
        field = rows.schema.field(position)
        _check(field, rows.column(position), path=field.name)


def _check(field: pa.Field, array: pa.Array, *, path: str) -> None:
    if not field.nullable and array.null_count:
        raise InvalidValueError(
            f"Column '{path}' holds {array.null_count} nulls, but it is declared NOT NULL.",
            hint="Write a value in every row, or let the column be null.",
        )
    if pa.types.is_struct(field.type):
        for index, child in enumerate(field.type):
            # A null row hides whatever its fields hold.
            _check(child, _shown(array, index), path=f"{path}.{child.name}")
    elif pa.types.is_map(field.type):
        _check(field.type.key_field, array.keys, path=f"{path}.key")
        _check(field.type.item_field, array.items, path=f"{path}.value")
    elif pa.types.is_list(field.type):
        _check(field.type.value_field, array.values, path=f"{path}.item")


def _shown(array: pa.StructArray, index: int) -> pa.Array:
    child = array.field(index)
    return child if not array.null_count else child.filter(pc.is_valid(array))
