"""Rows, column by column: null bits first, then the fields that are there."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.rows.compacted.cursor import Cursor
from headwater.rows.compacted.forms import Form, InstantForm, NumberForm, Numbers, SpanForm
from headwater.rows.compacted.origin import Origin
from headwater.rows.row_bytes import Bytes, Longs, Mask, RowBytes

_BITS = 8
_LONG_BYTES = 8


@dataclass(frozen=True, slots=True)
class Field:
    """Describe one field of a row: how it is called, what it holds, whether it may be missing."""

    name: str
    form: Form
    arrow: pa.DataType
    nullable: bool


def null_byte_count(field_count: int) -> int:
    """Return how many bytes of null bits lead a row."""
    return (field_count + _BITS - 1) // _BITS


def read_rows(
    fields: Sequence[Field], rows: RowBytes, origin: Origin, *, enforce_not_null: bool
) -> list[pa.Array]:
    """Read all fields of all rows, each of which must end with its last field."""
    if not len(rows):
        return [pa.array([], field.arrow) for field in fields]
    cursor = Cursor.over(rows, origin.named(f"{origin.field}, its null bits"))
    null_bytes = _null_bytes(cursor, len(fields))
    columns = []
    for index, field in enumerate(fields):
        cursor.origin = origin.named(_path(origin.field, field.name))
        nulls = _nulls(null_bytes[index // _BITS], index % _BITS)
        if enforce_not_null and not field.nullable:
            cursor.origin.refuse_nulls(nulls)
        columns.append(_read_column(field, cursor, nulls))
    cursor.finish()
    return columns


def read_all(fields: Sequence[Field], rows: RowBytes, origin: Origin) -> list[pa.Array]:
    """Read fields of rows without null bits, such as keys."""
    if not len(rows):
        return [pa.array([], field.arrow) for field in fields]
    cursor = Cursor.over(rows, origin)
    columns = []
    for field in fields:
        cursor.origin = origin.named(_path(origin.field, field.name))
        columns.append(read_field(field.form, cursor))
    cursor.finish()
    return columns


def read_field(form: Form, cursor: Cursor) -> pa.Array:
    """Read one value from every row."""
    match form:
        case NumberForm():
            return form.from_numbers(_read_numbers(form, cursor), cursor.origin)
        case InstantForm():
            millis = cursor.longs()
            nanos = cursor.ints().view(np.int64)
            return form.join(millis, nanos, cursor.origin)
        case SpanForm():
            return form.from_spans(cursor.spans(), cursor.origin)


def pass_field(form: Form, cursor: Cursor) -> None:
    """Move past one value in every row."""
    match form:
        case NumberForm():
            _read_numbers(form, cursor)
        case InstantForm():
            cursor.longs()
            cursor.ints()
        case SpanForm():
            cursor.spans()


def _read_numbers(form: NumberForm, cursor: Cursor) -> Numbers:
    if not form.is_packed:
        return cursor.fixed(form.dtype)
    if form.dtype.itemsize == _LONG_BYTES:
        return cursor.longs()
    # Bits above the 32nd are cut off, as other readers do.
    return cursor.ints().astype(np.uint32).view(np.int32)


def spread(array: pa.Array, nulls: Mask) -> pa.Array:
    """Return an array with nulls put in where the mask says."""
    places = np.cumsum(~nulls) - 1
    return array.take(pa.array(places, mask=nulls))


def _path(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def _null_bytes(cursor: Cursor, field_count: int) -> list[Bytes | None]:
    starts, count = cursor.at, null_byte_count(field_count)
    # The bits of all rows must be there before any of them is looked at.
    cursor.bytes_after(count)
    found = [cursor.data[starts + index] for index in range(count)]
    return [each if np.count_nonzero(each) else None for each in found]


def _nulls(null_byte: Bytes | None, bit: int) -> Mask | None:
    if null_byte is None:
        return None
    nulls = (null_byte & np.uint8(1 << bit)) != 0
    return nulls if np.count_nonzero(nulls) else None


def _read_column(field: Field, cursor: Cursor, nulls: Mask | None) -> pa.Array:
    if nulls is None:
        return read_field(field.form, cursor)
    present: Longs = np.flatnonzero(~nulls)
    if not len(present):
        return pa.nulls(len(nulls), field.arrow)
    part = cursor.picked(present)
    array = read_field(field.form, part)
    moved = cursor.at.copy()
    moved[present] = part.at
    cursor.at = moved
    return spread(array, nulls)
