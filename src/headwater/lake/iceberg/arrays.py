"""Arrow arrays brought to other types of the same meaning."""

import numpy as np
import pyarrow as pa


def fitted(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return values under a type: other widths and units, other names, ids or nullability inside.

    Fields of rows are matched by their order. Raises `pa.ArrowInvalid` for a value that the type
    cannot hold.
    """
    if values.type.equals(wanted, check_metadata=True):
        return values
    if pa.types.is_struct(wanted):
        children = [fitted(values.field(at), field.type) for at, field in enumerate(wanted)]
        return _built(wanted, values, children=children)
    if pa.types.is_map(wanted):
        entries = pa.struct([wanted.key_field, wanted.item_field])
        pairs = [
            fitted(values.keys, wanted.key_type),
            fitted(values.items, wanted.item_type),
        ]
        whole = pa.Array.from_buffers(entries, len(pairs[0]), [None], children=pairs)
        return _built(wanted, values, children=[whole], offsets=values.offsets)
    if pa.types.is_list(wanted):
        children = [fitted(values.values, wanted.value_type)]
        return _built(wanted, values, children=children, offsets=values.offsets)
    return values.cast(wanted)


def fitted_batch(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch, as many as the schema has, under its names and types."""
    columns = [
        fitted(column, field.type) for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _built(
    wanted: pa.DataType,
    values: pa.Array,
    *,
    children: list[pa.Array],
    offsets: pa.Int32Array | None = None,
) -> pa.Array:
    """Put children under the nulls of an array; Arrow's own casts refuse nulls under null rows."""
    valid = values.is_valid().buffers()[1] if values.null_count else None
    buffers = [valid]
    if offsets is not None:
        buffers.append(pa.py_buffer(np.ascontiguousarray(offsets.to_numpy())))
    return pa.Array.from_buffers(wanted, len(values), buffers, children=children)
