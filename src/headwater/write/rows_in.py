"""Rows and keys as people hold them, made into record batches of a table's schema.

Taken are Arrow batches, tables and readers; whatever offers Arrow's stream or array protocol,
such as Polars data frames and DuckDB relations; pandas data frames; mappings and tuples in
any iterable; and iterables of all of these.

- A mapping is one row, unless it is columns: then every value is a sequence, array or series, and
at least one of them belongs to a column that is neither ARRAY, MAP nor ROW.
- A tuple has one value per column, in the order of the columns.
- The index of a pandas data frame is left out, except levels with a name, which are columns.
- What pandas counts as missing, such as NaN, is null.
- Columns are matched by name; a nullable column that is not given is null.

Keys are given as rows of the columns of the key. Where that is one column, its values will do as
they are: a single one, any iterable of them, a NumPy or Arrow array, a series of pandas or Polars.
`get` takes one key (`KeyLike`): a mapping, a tuple, or such a value.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import groupby, islice
from types import NoneType
from typing import Protocol, TypeAlias, TypeGuard, cast, runtime_checkable

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidTargetColumnError, InvalidValueError
from headwater.rows import frames
from headwater.rows.admission import check_nulls, columns_to_check
from headwater.rows.columns import ColumnNames, cast_column
from headwater.rows.plain_values import column_of

# Tables made of rows and columns that are plain Python objects.

PlainRow: TypeAlias = Mapping[str, object] | tuple[object, ...]

# Seen first, as nearly all rows begin with one of them.
_SCALARS = (int, str, float, bytes)
_MOMENTS = (date, datetime, Decimal, time)
# These have a length, some of them, but are no columns.
_VALUES = (*_SCALARS, bytearray, memoryview)
_ARROW_PROTOCOLS = ("__arrow_c_array__", "__arrow_c_stream__", "__arrow_array__")


def is_columns(given: Mapping[str, object], schema: pa.Schema) -> bool:
    """Tell whether a mapping holds columns: only then has a plain column a sequence for value."""
    return all(map(_is_column, given.values())) and any(
        name in given and not pa.types.is_nested(schema.field(name).type) for name in schema.names
    )


def is_row(item: object, schema: pa.Schema) -> TypeGuard[PlainRow]:
    """Tell whether something is one row."""
    if isinstance(item, Mapping):
        return not is_columns(item, schema)
    return isinstance(item, tuple)


def are_rows(items: Sequence[object], schema: pa.Schema) -> TypeGuard[Sequence[PlainRow]]:
    """Tell at a glance whether a list holds nothing but rows; if not, each has to be looked at."""
    if set(map(type, items)) != {dict}:
        return False
    rows = cast(Sequence[Mapping[str, object]], items)
    name = next((name for name in schema.names if name in rows[0]), None)
    if name is None or pa.types.is_nested(schema.field(name).type):
        return False
    kinds = set(map(type, [row.get(name) for row in rows]))
    # Columns would have something else than these here.
    return kinds <= {*_SCALARS, bool, NoneType, *_MOMENTS}


def table_of_columns(
    given: Mapping[str, object], schema: pa.Schema, *, names: ColumnNames
) -> pa.Table:
    """Return columns as a table, plain values in the types of the schema."""
    names.check_known(list(given))
    wanted = [name for name in schema.names if name in given]
    columns = {name: _column(given[name], schema.field(name)) for name in wanted}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"'{name}' {length}" for name, length in lengths.items())
        raise InvalidValueError(f"The columns differ in length: {shown}.")
    return pa.table(columns)


def table_of_rows(rows: Sequence[PlainRow], schema: pa.Schema, *, names: ColumnNames) -> pa.Table:
    """Return rows as a table in the types of the schema, without columns that no row has."""
    mappings = _as_mappings(rows, schema.names)
    given: set[str] = set().union(*mappings)
    names.check_known(sorted(given))
    return pa.table(
        {
            name: column_of([row.get(name) for row in mappings], schema.field(name))
            for name in schema.names
            if name in given
        }
    )


def _is_column(value: object) -> bool:
    if value is None or isinstance(value, _VALUES):
        return False
    # Series speak Arrow from pandas 3 on.
    return isinstance(value, Sequence | np.ndarray) or any(
        (frames.is_pandas_series(value), *(hasattr(value, name) for name in _ARROW_PROTOCOLS))
    )


def _column(values: object, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = values.tolist()
    if isinstance(values, Sequence):
        return column_of(values if isinstance(values, list | tuple) else list(values), field)
    if frames.is_pandas_series(values):
        return frames.pandas_column(values, field, name=field.name)
    try:
        # A stream comes in chunks, and some arrays offer nothing else.
        is_stream = hasattr(values, "__arrow_c_stream__")
        return pa.chunked_array(values) if is_stream else pa.array(values)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InvalidValueError(
            f"The column '{field.name}' cannot be built from a {type(values).__name__}: "
            f"{str(error).splitlines()[0]}."
        ) from None


def _as_mappings(rows: Sequence[PlainRow], names: Sequence[str]) -> Sequence[Mapping[str, object]]:
    if set(map(type, rows)) == {dict}:
        return cast(Sequence[Mapping[str, object]], rows)
    return [as_mapping(row, names) for row in rows]


def as_mapping(row: PlainRow, names: Sequence[str]) -> Mapping[str, object]:
    """Return a row by the names of its columns."""
    if isinstance(row, Mapping):
        return row
    # Tuples that name their values, such as rows of Spark, are matched by name as well.
    named: Callable[[], Mapping[str, object]] | None = getattr(
        row, "_asdict", getattr(row, "asDict", None)
    )
    if named is not None:
        return named()
    if len(row) != len(names):
        raise InvalidValueError(
            f"A tuple has {len(row)} values, but there are {len(names)} columns.",
            hint=f"Give them in the order {', '.join(names)}.",
        )
    return dict(zip(names, row, strict=True))


# Rows as people hold them, made into record batches of a table's schema.
#
# Taken are Arrow batches, tables and readers; whatever offers Arrow's stream or array protocol,
# such as Polars data frames and DuckDB relations; pandas data frames; mappings and tuples in
# any iterable; and iterables of all of these.
#
# - A mapping is one row, unless every value is a sequence, array or series and at least one belongs
#   to a column that is neither ARRAY, MAP nor ROW: then it is columns.
# - A tuple has one value per column, in the order of the columns.
# - The index of a pandas data frame is left out, except levels with a name, which are columns; and
#   what pandas counts as missing, such as NaN, is null.
# - Columns are matched by name; a nullable column that is not given is null.

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
class WantedSchema:
    """Hold what batches shall be like; made once for many takings."""

    table: pa.Schema
    schema: pa.Schema
    names: ColumnNames
    checked: tuple[int, ...]
    rows_max: int

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        *,
        columns: Sequence[str] | None = None,
        rows_max: int = ROWS_MAX,
    ) -> "WantedSchema":
        """Want batches of exactly this schema, or of some of its columns in this order."""
        assert rows_max > 0
        chosen = schema if columns is None else _chosen(schema, columns)
        return cls(schema, chosen, ColumnNames.of(schema), columns_to_check(chosen), rows_max)


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
    return wanted_batches(rows, WantedSchema.of(schema, columns=columns, rows_max=rows_max))


def wanted_batches(rows: RowsLike, wanted: WantedSchema) -> Iterator[pa.RecordBatch]:
    """Return rows as batches that are as wanted."""
    return _batches(rows, wanted)


def _chosen(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    try:
        ColumnNames.of(schema).check_known(columns)
    except InvalidValueError as error:
        raise InvalidTargetColumnError(error.message, hint=error.hint) from None
    return pa.schema([schema.field(name) for name in columns])


def _batches(rows: object, wanted: WantedSchema) -> Iterator[pa.RecordBatch]:
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


def _arrow_batches(rows: object, wanted: WantedSchema) -> Iterable[pa.RecordBatch] | None:
    """Return whatever comes in columns as batches, None for rows."""
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if isinstance(rows, Mapping):
        if not is_columns(rows, wanted.table):
            return None
        return table_of_columns(rows, wanted.schema, names=wanted.names).to_batches()
    if frames.is_pandas(rows):
        return frames.pandas_table(rows, wanted.schema).to_batches()
    return _exported_batches(rows.collect() if frames.is_polars_lazy(rows) else rows)


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


def _batches_of_many(items: Iterator[object], wanted: WantedSchema) -> Iterator[pa.RecordBatch]:
    """Gather rows into batches; what comes in columns in between makes batches of its own."""
    for have_rows, run in groupby(items, key=lambda item: is_row(item, wanted.table)):
        if not have_rows:
            for item in run:
                yield from _batches(item, wanted)
            continue
        while held := cast(list[PlainRow], list(islice(run, wanted.rows_max))):
            yield _batch_of_rows(held, wanted)


def _batch_of_rows(rows: Sequence[PlainRow], wanted: WantedSchema) -> pa.RecordBatch:
    table = table_of_rows(rows, wanted.schema, names=wanted.names)
    return _conformed(_one_batch(table, len(rows)), wanted)


def _one_batch(table: pa.Table, row_count: int) -> pa.RecordBatch:
    if not table.num_columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * row_count, pa.struct([])))
    return table.combine_chunks().to_batches()[0]


def _conformed(batch: pa.RecordBatch, wanted: WantedSchema) -> pa.RecordBatch:
    """Return a batch in the wanted schema, the same one if it is in it already."""
    if not batch.schema.equals(wanted.schema):
        batch = pa.RecordBatch.from_arrays(_columns(batch, wanted), schema=wanted.schema)
    check_nulls(batch, wanted.checked)
    return batch


def _columns(batch: pa.RecordBatch, wanted: WantedSchema) -> list[pa.Array]:
    wanted.names.check_known(batch.schema.names)
    columns = []
    for field in wanted.schema:
        if field.name in batch.schema.names:
            columns.append(cast_column(batch.column(field.name), field))
        else:
            wanted.names.check_optional(field)
            columns.append(pa.nulls(batch.num_rows, field.type))
    return columns


# Rows taken from callers without holding up the loop that everything else runs on.

# Turning more than this many Python objects into columns takes longer than a hand-over.
INLINE_ROWS_MAX = 200
_ARROW = (pa.RecordBatch, pa.Table)


async def batches_of(rows: RowsLike, wanted: WantedSchema) -> AsyncIterator[pa.RecordBatch]:
    """Yield rows as batches that are as wanted.

    What is there as a whole is checked as a whole before the first batch is given, so that
    bad rows change nothing. What comes in a stream is checked as it comes.
    """
    batches = wanted_batches(rows, wanted)
    if is_whole(rows):
        is_quick = isinstance(rows, _ARROW) or _count(rows) <= INLINE_ROWS_MAX
        for batch in list(batches) if is_quick else await asyncio.to_thread(list, batches):
            yield batch
        return
    # The caller's own code may run here, and take its time.
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        yield batch


def is_whole(rows: RowsLike) -> bool:
    """Tell whether all rows are there already, rather than to come."""
    return isinstance(rows, Sized)


def _count(rows: RowsLike) -> int:
    return len(rows) if isinstance(rows, Sized) else 0


async def batch_of(rows: RowsLike, wanted: WantedSchema) -> pa.RecordBatch:
    """Return rows as a single batch."""
    if isinstance(rows, Mapping):  # Nearly always a single key, which has to be quick.
        batches = list(wanted_batches(rows, wanted))
    else:
        batches = [batch async for batch in batches_of(rows, wanted)]
    return joined(batches, wanted)


def joined(batches: Iterable[pa.RecordBatch], wanted: WantedSchema) -> pa.RecordBatch:
    """Return batches as a single one."""
    held = list(batches)
    if len(held) == 1:
        return held[0]
    return pa.concat_batches(held) if held else pa.RecordBatch.from_pylist([], schema=wanted.schema)


def columns_in(rows: RowsLike) -> tuple[str, ...] | None:
    """Return the columns that rows name, or None if they name none."""
    if isinstance(rows, Mapping):
        return tuple(rows)
    if isinstance(rows, _ARROW):
        return tuple(rows.schema.names)
    if isinstance(rows, Sequence) and rows and isinstance(rows[0], Mapping):
        return tuple(rows[0])
    return None


# Keys as people hold them, made into rows of the columns of a key.
#
# Taken is whatever is taken as rows, with the columns of the key. Where that is one column, its
# values will do as they are: a single one, any iterable of them, a NumPy or Arrow array, a series
# of pandas or Polars. `get` takes one key (`KeyLike`): a mapping, a tuple, or such a value.

Scalar: TypeAlias = str | bytes | int | float | Decimal | date | time | datetime | np.generic
"""The value of one column of a key."""

KeysLike: TypeAlias = RowsLike | Scalar
"""Rows with the columns of a key; where that has one column, its values as they are will do."""

KeyLike: TypeAlias = Mapping[str, object] | tuple[object, ...] | Scalar
"""One key: a mapping, a tuple in the order of the columns, or the value of a single column."""


def keys_in(keys: KeysLike, names: Sequence[str]) -> RowsLike:
    """Return keys as rows or columns of these names."""
    if isinstance(keys, Mapping):
        return keys
    if isinstance(keys, Scalar):
        return _named([keys], names)
    if _is_key_column(keys):
        return _named(keys, names)
    if isinstance(keys, ArrowStream | ArrowArray):
        return keys
    if isinstance(keys, Iterator):
        return (each if not isinstance(each, Scalar) else _row(each, names) for each in keys)
    if isinstance(keys, Collection) and isinstance(next(iter(keys), None), Scalar):
        return _named(list(keys), names)
    return keys


def are_few(keys: KeysLike, count_max: int) -> bool:
    """Tell at a glance that keys are there as a whole, and that there are no more of them."""
    if isinstance(keys, Scalar):
        return True
    if isinstance(keys, Mapping):
        return all(isinstance(each, Scalar) or _is_short(each, count_max) for each in keys.values())
    return _is_short(keys, count_max)


def _is_short(values: object, count_max: int) -> bool:
    try:
        return isinstance(values, Sized) and len(values) <= count_max
    except TypeError:  # An array without dimensions has no length after all.
        return False


def key_in(key: KeyLike, names: Sequence[str]) -> RowsLike:
    """Return one key as rows; a tuple is one here, and not several."""
    return keys_in([key] if isinstance(key, tuple) else key, names)


def _is_key_column(keys: KeysLike) -> TypeGuard[Iterable[object]]:
    """Tell whether something is a column of its own, rather than a table."""
    if isinstance(keys, pa.StructArray):
        return False
    return isinstance(keys, pa.Array | pa.ChunkedArray | np.ndarray) or frames.is_series(keys)


def _named(values: Iterable[object], names: Sequence[str]) -> dict[str, object]:
    return {_only(names): values}


def _row(value: Scalar, names: Sequence[str]) -> tuple[Scalar]:
    _only(names)
    return (value,)


def _only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise InvalidValueError(
            f"The key has the columns {', '.join(names)}, so a single value is not a key.",
            hint="Give mappings or tuples. Wrap a single tuple in a list.",
        )
    return names[0]
