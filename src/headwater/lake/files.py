"""What the readers of all formats share: damaged files, picked or cast or dropped columns."""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from headwater.errors import CorruptFileError, InvalidTableError, PositionMissingError
from headwater.model import TablePath

# Telling damaged lake files from files that cannot be reached.

_UNREADABLE: tuple[type[Exception], ...] = (
    ValueError,  # also the base of JSON, UTF-8 and pydantic errors
    LookupError,
    EOFError,
    TypeError,
    OverflowError,
    SystemError,
    struct.error,
    zlib.error,
)
# What pyarrow says about wrong bytes; it has no error type of its own for that.
_SIGNS = ("CRC checksum", "thrift", "orrupt", "Unexpected end of stream", "Malformed")


@contextmanager
def read_whole(path: str) -> Iterator[None]:
    """Report a Parquet file as damaged if reading it shows that."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as fault:
        raise _damaged(path, fault) from fault
    except OSError as fault:
        if any(sign in str(fault) for sign in _SIGNS):
            raise _damaged(path, fault) from fault
        raise


def check_count(path: str, count: int, *, expected: int) -> None:
    """Compare with the number of rows written: page headers have no checksum."""
    if count != expected:
        raise CorruptFileError(
            f"The data file {path} is damaged: it holds {count} rows instead of {expected}.",
            hint=("Restore it from a copy; `headwater audit --deep` lists all damaged files."),
        )


@contextmanager
def decoded(what: str, *also: type[Exception]) -> Iterator[None]:
    """Report metadata as damaged if a library fails on it in its own way."""
    unreadable: tuple[type[Exception], ...] = (*_UNREADABLE, *also)
    try:
        yield
    except unreadable as fault:
        if isinstance(fault, OSError):  # A response of an HTTP catalog may be both.
            raise
        raise CorruptFileError(
            f"The metadata of {what} cannot be read: {type(fault).__name__}: {fault}.",
            hint="Restore its metadata files from a copy; `headwater audit` names them.",
        ) from fault


def _damaged(path: str, fault: Exception) -> CorruptFileError:
    reason = str(fault).splitlines() or [type(fault).__name__]
    return CorruptFileError(
        f"The data file {path} is damaged: {reason[0].rstrip('.')}.",
        hint="Restore it from a copy; `headwater audit --deep` lists all damaged files.",
    )


# File types that any engine converts to the table's types by a plain cast.

_FAMILIES = (
    pa.types.is_signed_integer,
    pa.types.is_floating,
    pa.types.is_time,
    lambda kind: pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind),
)


def is_castable(written: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether any engine can cast a file's values to those of a table.

    Nested values must have the wanted type already, since engines differ in how they cast inside
    them. Nanoseconds are stored in a form that some engines read as microseconds.
    """
    if pa.types.is_nested(written) or pa.types.is_nested(wanted):
        return _is_same(written, wanted)
    if pa.types.is_timestamp(written) and pa.types.is_timestamp(wanted):
        return bool(written.tz == wanted.tz and "ns" not in (written.unit, wanted.unit))
    if pa.types.is_decimal(written) and pa.types.is_decimal(wanted):
        return bool(written.scale == wanted.scale and written.precision <= wanted.precision)
    return written == wanted or any(is_of(written) and is_of(wanted) for is_of in _FAMILIES)


def _is_same(written: pa.DataType, wanted: pa.DataType) -> bool:
    """Compare types, ignoring nullability and the inner field names of lists and maps."""
    if not pa.types.is_nested(wanted):
        return bool(written == wanted) and not _is_nanoseconds(wanted)
    if written.id != wanted.id or written.num_fields != wanted.num_fields:
        return False
    pairs = [(written.field(at), wanted.field(at)) for at in range(wanted.num_fields)]
    if pa.types.is_map(wanted):
        pairs = [(written.key_field, wanted.key_field), (written.item_field, wanted.item_field)]
    is_named = pa.types.is_struct(wanted)
    return all(
        (held.name == field.name or not is_named) and _is_same(held.type, field.type)
        for held, field in pairs
    )


def _is_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


# Columns, and fields of rows inside them, picked by their paths.

_Tree = dict[str, "_Tree"]


def picked_schema(schema: pa.Schema, paths: Sequence[tuple[str, ...]]) -> pa.Schema:
    """The columns that paths select, in the order in which paths first name them.

    A path of several names keeps only the fields on it: ("a", "b") gives the column "a" as a row of
    "b". Paths with the same beginning give one column; the shorter one decides.
    """
    fields = {field.name: field for field in schema}
    return pa.schema(_picked_fields(fields, _tree(paths)))


def picked(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Pick the columns of a schema made by `picked_schema`, without copying values."""
    columns = [_narrowed(rows.column(field.name), field.type) for field in schema]
    if not columns:
        return rows.select([])
    return pa.record_batch(columns, schema=schema)


def _tree(paths: Sequence[tuple[str, ...]]) -> _Tree:
    whole = set(paths)
    tree: _Tree = {}
    for path in paths:
        # A column that is wanted whole is not reduced by a longer path.
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
                f"There is no column '{name}'.", hint=f"The columns are {', '.join(fields)}."
            )
        chosen.append(_picked_field(fields[name], inner))
    return chosen


def _picked_field(field: pa.Field, inner: _Tree) -> pa.Field:
    if not inner:
        return field
    if not pa.types.is_struct(field.type):
        raise InvalidTableError(f"The column '{field.name}' has no fields: it is not a row.")
    fields = {each.name: each for each in field.type}
    return field.with_type(pa.struct(_picked_fields(fields, inner)))


def _narrowed(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type == wanted:
        return values
    held = {field.name: at for at, field in enumerate(values.type)}
    # The children as seen through a slice; a null row keeps its nulls by the mask.
    children = values.flatten()
    return pa.StructArray.from_arrays(
        [_narrowed(children[held[field.name]], field.type) for field in wanted],
        fields=list(wanted),
        mask=values.is_null(),
    )


# Columns that were dropped since, for readers that still use them.


def values_gone(path: TablePath, column: str, file: str) -> PositionMissingError:
    """The error for a file without values of a column that was dropped before it was written.

    Nulls would be wrong: its rows may have had values when they were written to the log.
    """
    return PositionMissingError(
        f"The column '{column}' of {path} was dropped, and the lake no longer has all of "
        f"its values: the file {file} was written afterwards.",
        hint="Read other columns, or read the table under its newest schema.",
    )
