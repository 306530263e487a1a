"""Tables made of rows and columns that are plain Python objects."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from types import NoneType
from typing import TypeAlias, TypeGuard, cast

import numpy as np
import pyarrow as pa

from headwater.client.column_names import Names
from headwater.client.frames import is_pandas_series, pandas_column
from headwater.client.plain_values import column_of
from headwater.errors import InvalidValueError

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


def table_of_columns(given: Mapping[str, object], schema: pa.Schema, *, names: Names) -> pa.Table:
    """Return columns as a table, plain values in the types of the schema."""
    names.check_known(list(given))
    wanted = [name for name in schema.names if name in given]
    columns = {name: _column(given[name], schema.field(name)) for name in wanted}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"'{name}' {length}" for name, length in lengths.items())
        raise InvalidValueError(f"The columns differ in length: {shown}.")
    return pa.table(columns)


def table_of_rows(rows: Sequence[PlainRow], schema: pa.Schema, *, names: Names) -> pa.Table:
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
        (is_pandas_series(value), *(hasattr(value, name) for name in _ARROW_PROTOCOLS))
    )


def _column(values: object, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = values.tolist()
    if isinstance(values, Sequence):
        return column_of(values if isinstance(values, list | tuple) else list(values), field)
    if is_pandas_series(values):
        return pandas_column(values, field, name=field.name)
    try:
        # A stream comes in chunks, and some arrays offer nothing else.
        is_stream = hasattr(values, "__arrow_c_stream__")
        return pa.chunked_array(values) if is_stream else pa.array(values)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InvalidValueError(
            f"The column '{field.name}' cannot be made of a {type(values).__name__}: "
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
