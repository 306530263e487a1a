"""Columns, and fields of rows inside them, picked by their paths."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from headwater.errors import InvalidTableError

_Tree = dict[str, "_Tree"]


def picked_schema(schema: pa.Schema, paths: Sequence[tuple[str, ...]]) -> pa.Schema:
    """Return the columns that paths lead to, in the order in which paths first name them.

    A path of several names leaves of a row only the fields on it: ("a", "b") gives the column "a"
    as a row of "b". Paths with the same beginning give one column; the shorter one decides.
    """
    fields = {field.name: field for field in schema}
    return pa.schema(_picked_fields(fields, _tree(paths)))


def picked(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns that a schema of `picked_schema` names, without copying values."""
    columns = [_narrowed(rows.column(field.name), field.type) for field in schema]
    if not columns:
        return rows.select([])
    return pa.record_batch(columns, schema=schema)


def _tree(paths: Sequence[tuple[str, ...]]) -> _Tree:
    whole = set(paths)
    tree: _Tree = {}
    for path in paths:
        # A column that is wanted whole is not taken apart by a longer path.
        end = next(end for end in range(1, len(path) + 1) if path[:end] in whole)
        node = tree
        for name in path[:end]:
            node = node.setdefault(name, {})
    return tree


def _picked_fields(fields: Mapping[str, pa.Field], tree: _Tree) -> list[pa.Field]:
    chosen = []
    for name, inner in tree.items():
        if name not in fields:
            raise InvalidTableError(
                f"There is no column '{name}'.", hint=f"There are {', '.join(fields)}."
            )
        chosen.append(_picked_field(fields[name], inner))
    return chosen


def _picked_field(field: pa.Field, inner: _Tree) -> pa.Field:
    if not inner:
        return field
    if not pa.types.is_struct(field.type):
        raise InvalidTableError(f"The column '{field.name}' has no fields: it is no row.")
    fields = {each.name: each for each in field.type}
    return field.with_type(pa.struct(_picked_fields(fields, inner)))


def _narrowed(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type == wanted:
        return values
    held = {field.name: at for at, field in enumerate(values.type)}
    # Children as they are seen through a slice; a null row keeps its nulls by the mask.
    children = values.flatten()
    return pa.StructArray.from_arrays(
        [_narrowed(children[held[field.name]], field.type) for field in wanted],
        fields=list(wanted),
        mask=values.is_null(),
    )
