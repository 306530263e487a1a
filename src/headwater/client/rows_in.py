"""Rows as people hold them, made into record batches of a table's schema.

Taken are Arrow batches, tables and readers; whatever offers Arrow's stream or array protocol,
such as Polars data frames and DuckDB relations; pandas data frames; mappings and tuples in
any iterable; and iterables of all of these.

- A mapping is one row, unless every value is a sequence, array or series and at least one belongs
  to a column that is neither ARRAY, MAP nor ROW: then it is columns.
- A tuple has one value per column, in the order of the columns.
- The index of a pandas data frame is left out, except levels with a name, which are columns; and
  what pandas counts as missing, such as NaN, is null.
- Columns are matched by name; a nullable column that is not given is null.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Protocol, TypeAlias, cast, runtime_checkable

import pyarrow as pa

from headwater.client.casting import cast_column
from headwater.client.column_names import Names
from headwater.client.frames import is_pandas, is_polars_lazy, pandas_table
from headwater.client.plain_rows import (
    PlainRow,
    are_rows,
    is_columns,
    is_row,
    table_of_columns,
    table_of_rows,
)
from headwater.errors import InvalidTargetColumnError, InvalidValueError
from headwater.rows.nullness import check_nulls, columns_to_check

ROWS_MAX = 65_536
"""Rows of one batch, unless told otherwise."""


@runtime_checkable
class ArrowStream(Protocol):
    """Offer batches by Arrow's stream protocol."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with a stream."""


@runtime_checkable
class ArrowArray(Protocol):
    """Offer one batch by Arrow's array protocol."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        """Return capsules with a schema and an array."""


RowsLike: TypeAlias = ArrowStream | ArrowArray | Mapping[str, object] | Iterable[object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hold what batches shall be like; made once for many takings."""

    table: pa.Schema
    schema: pa.Schema
    names: Names
    checked: tuple[int, ...]
    rows_max: int

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        *,
        columns: Sequence[str] | None = None,
        rows_max: int = ROWS_MAX,
    ) -> "Wanted":
        """Want batches of exactly this schema, or of some of its columns in this order."""
        assert rows_max > 0
        chosen = schema if columns is None else _chosen(schema, columns)
        return cls(schema, chosen, Names.of(schema), columns_to_check(chosen), rows_max)


def record_batches(
    rows: RowsLike,
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    rows_max: int = ROWS_MAX,
) -> Iterator[pa.RecordBatch]:
    """Return rows as batches of exactly this schema, or of some of its columns in this order.

    Columns of the table that are not among the wanted ones are left out.
    """
    return wanted_batches(rows, Wanted.of(schema, columns=columns, rows_max=rows_max))


def wanted_batches(rows: RowsLike, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Return rows as batches that are as wanted."""
    return _batches(rows, wanted)


def _chosen(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    try:
        Names.of(schema).check_known(columns)
    except InvalidValueError as error:
        raise InvalidTargetColumnError(error.message, hint=error.hint) from None
    return pa.schema([schema.field(name) for name in columns])


def _batches(rows: object, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    arrow = _arrow_batches(rows, wanted)
    if arrow is None and isinstance(rows, Mapping):
        yield _batch_of_rows((rows,), wanted)
        return
    if arrow is None and isinstance(rows, list) and are_rows(rows, wanted.table):
        for first in range(0, len(rows), wanted.rows_max):
            yield _batch_of_rows(rows[first : first + wanted.rows_max], wanted)
        return
    if arrow is None:
        yield from _batches_of_many(_each(rows), wanted)
        return
    for batch in arrow:
        for first in range(0, batch.num_rows, wanted.rows_max):
            yield _conformed(batch.slice(first, wanted.rows_max), wanted)


def _arrow_batches(rows: object, wanted: Wanted) -> Iterable[pa.RecordBatch] | None:
    """Return whatever comes in columns as batches, None for rows."""
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if isinstance(rows, Mapping):
        if not is_columns(rows, wanted.table):
            return None
        return table_of_columns(rows, wanted.schema, names=wanted.names).to_batches()
    if is_pandas(rows):
        return pandas_table(rows, wanted.schema).to_batches()
    return _exported_batches(rows.collect() if is_polars_lazy(rows) else rows)


def _exported_batches(rows: object) -> Iterable[pa.RecordBatch] | None:
    try:
        if isinstance(rows, ArrowStream):
            return pa.RecordBatchReader.from_stream(rows)
        if isinstance(rows, ArrowArray):
            return [pa.record_batch(rows)]
    except (pa.ArrowInvalid, TypeError, ValueError) as error:
        raise InvalidValueError(
            f"A {type(rows).__name__} does not hold rows: {str(error).splitlines()[0]}.",
            hint="Give a table or data frame with named columns.",
        ) from None
    return None


def _each(rows: object) -> Iterator[object]:
    if isinstance(rows, Mapping):
        return iter((rows,))
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
        return iter(rows)
    raise InvalidValueError(
        f"Something of type {type(rows).__name__} is neither rows nor columns.",
        hint="Give Arrow data, a data frame, mappings or tuples. Wrap a single tuple in a list.",
    )


def _batches_of_many(items: Iterator[object], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Gather rows into batches; what comes in columns in between makes batches of its own."""
    for have_rows, run in groupby(items, key=lambda item: is_row(item, wanted.table)):
        if not have_rows:
            for item in run:
                yield from _batches(item, wanted)
            continue
        while held := cast(list[PlainRow], list(islice(run, wanted.rows_max))):
            yield _batch_of_rows(held, wanted)


def _batch_of_rows(rows: Sequence[PlainRow], wanted: Wanted) -> pa.RecordBatch:
    table = table_of_rows(rows, wanted.schema, names=wanted.names)
    return _conformed(_one_batch(table, len(rows)), wanted)


def _one_batch(table: pa.Table, row_count: int) -> pa.RecordBatch:
    if not table.num_columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * row_count, pa.struct([])))
    return table.combine_chunks().to_batches()[0]


def _conformed(batch: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """Return a batch in the wanted schema, the same one if it is in it already."""
    if not batch.schema.equals(wanted.schema):
        batch = pa.RecordBatch.from_arrays(_columns(batch, wanted), schema=wanted.schema)
    check_nulls(batch, wanted.checked)
    return batch


def _columns(batch: pa.RecordBatch, wanted: Wanted) -> list[pa.Array]:
    wanted.names.check_known(batch.schema.names)
    columns = []
    for field in wanted.schema:
        if field.name in batch.schema.names:
            columns.append(cast_column(batch.column(field.name), field))
        else:
            wanted.names.check_optional(field)
            columns.append(pa.nulls(batch.num_rows, field.type))
    return columns
