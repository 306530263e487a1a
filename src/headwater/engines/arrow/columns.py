"""Which columns a scan of a pyarrow dataset looks at."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

Columns = Sequence[str] | Mapping[str, pc.Expression] | None
"""Names of columns, or expressions by the names that they are to have; None for all columns."""


def needed_columns(
    schema: pa.Schema, columns: Columns, condition: pc.Expression | None
) -> list[str]:
    """Return the columns to read, in the order of the schema, and at least one."""
    if columns is None:
        return list(schema.names)
    if isinstance(columns, Mapping):
        named = {name for each in columns.values() for name in _looked_at(each, schema)}
    else:
        named = {_top(name, schema) for name in columns}
    if condition is not None:
        named |= set(_looked_at(condition, schema))
    if not named <= set(schema.names):
        return list(schema.names)  # pyarrow says itself that it does not know a column
    return [name for name in schema.names if name in named] or [_narrowest(schema)]


def _looked_at(expression: pc.Expression, schema: pa.Schema) -> Iterable[str]:
    """Yield the columns without which an expression means nothing."""
    _bind(expression, schema)
    for at, name in enumerate(schema.names):
        try:
            _bind(expression, schema.remove(at))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, IndexError):
            yield name


def _bind(expression: pc.Expression, schema: pa.Schema) -> None:
    ds.Scanner.from_batches(iter(()), schema=schema, filter=pc.is_valid(expression))


def _top(name: str, schema: pa.Schema) -> str:
    """Return the column that a name leads into: `a` for a field `a.b` of a row."""
    return name if name in schema.names else name.partition(".")[0]


def _narrowest(schema: pa.Schema) -> str:
    """Return the column that is read if all that matters is how many rows there are."""
    return min(schema, key=_width).name


def _width(field: pa.Field) -> int:
    try:
        return int(field.type.bit_width)
    except ValueError:
        return 1 << 30
