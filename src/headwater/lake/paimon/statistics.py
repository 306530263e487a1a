"""What the record of a data file tells of columns, as values that filters compare with."""

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from headwater.errors import CorruptBatchError, CorruptFileError
from headwater.lake.paimon.binary_row import from_binary_row
from headwater.lake.paimon.manifests import DataFile
from headwater.lake.paimon.schema import LakeSchema
from headwater.lake.split import ColumnBounds
from headwater.model.predicate import Literal

_UNKNOWN_TYPE = pa.null()
# Files of ours have no bounds of floats among which one is NaN; of others, nobody knows.
_OURS = re.compile(r"data-[0-9a-f]{32}-\d+\.parquet\Z")

FieldColumns = dict[int, tuple[int, pa.DataType]]
"""The column that a field holds, and its type in files, by the id of the field."""


def value_bounds(
    file: DataFile, written: LakeSchema, columns: FieldColumns
) -> Iterator[ColumnBounds]:
    """Yield what a file, written under a schema, tells of columns."""
    named = _named(file, written)
    order = [columns.get(field.field_id) for field in written.fields if field.name in named]
    record = file.bounds_record("_VALUE_STATS")
    nulls = record.get("_NULL_COUNTS")
    if not order or not isinstance(nulls, list) or len(nulls) != len(order):
        return
    kinds = [_UNKNOWN_TYPE if each is None else each[1] for each in order]
    minima = _literals(kinds, record.get("_MIN_VALUES"))
    maxima = _literals(kinds, record.get("_MAX_VALUES"))
    is_ours = _OURS.match(file.name) is not None
    for each, count, low, high in zip(order, nulls, minima, maxima, strict=True):
        if each is None:
            continue
        column_id, kind = each
        is_known = is_ours or not pa.types.is_floating(kind)
        yield ColumnBounds(
            column_id=column_id,
            lower=low if is_known else None,
            upper=high if is_known else None,
            null_count=count if isinstance(count, int) else None,
        )


def _named(file: DataFile, written: LakeSchema) -> set[str]:
    """Return the names of the fields that a file has bounds of."""
    names = file.record.get("_VALUE_STATS_COLS")
    if isinstance(names, list):
        return {str(name) for name in names}
    return {field.name for field in written.fields}


def _literals(kinds: Sequence[pa.DataType], row: object) -> tuple[Literal, ...]:
    nothing: tuple[Literal, ...] = (None,) * len(kinds)
    try:
        return from_binary_row(kinds, row) if isinstance(row, bytes) else nothing
    except (CorruptFileError, CorruptBatchError):
        # Without bounds a file is just never left out.
        return nothing
