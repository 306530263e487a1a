"""Rows, read and written column by column: null bits first, then the fields that are not null.

One read position per row advances through all rows together. Rows are written as numbers in runs of
words, joined with the strings between them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headwater.rows import row_bytes
from headwater.rows.compacted import varint
from headwater.rows.compacted.forms import Form, InstantForm, NumberForm, Numbers, Origin, SpanForm
from headwater.rows.compute import pc

# One read position per row, which all advance together.

_LENGTH_MAX = 2**31 - 1


class RowCursor:
    """Read the same kind of value from every row; no position leaves its row for long.

    A read may go up to 16 bytes past the end of a row, which the padding allows, and is rejected
    before the next one.
    """

    __slots__ = ("at", "data", "ends", "origin", "words")

    def __init__(
        self, data: row_bytes.Bytes, *, at: row_bytes.Longs, ends: row_bytes.Longs, origin: Origin
    ) -> None:
        self.data = data
        self.words: row_bytes.Words = row_bytes.overlapping_words(data)
        self.at = at
        self.ends = ends
        self.origin = origin

    @classmethod
    def over(cls, rows: row_bytes.RowBytes, origin: Origin) -> "RowCursor":
        """Put a cursor at the start of each row."""
        if len(rows):
            assert int(rows.ends.max()) + row_bytes.PADDING <= len(rows.data), (
                "row bytes without padding"
            )
        return cls(rows.data, at=rows.starts, ends=rows.ends, origin=origin)

    def picked(self, indices: row_bytes.Longs) -> "RowCursor":
        """Narrow the cursor to some of the rows."""
        origin = self.origin.picked(indices)
        return RowCursor(self.data, at=self.at[indices], ends=self.ends[indices], origin=origin)

    def bytes_after(self, width: int) -> None:
        """Skip a fixed number of bytes."""
        self._move(self.at + width)

    def fixed(self, dtype: np.dtype[np.generic]) -> Numbers:
        """Read a number of fixed width from each row."""
        numbers = row_bytes.overlapping(self.data, dtype)[self.at]
        self._move(self.at + dtype.itemsize)
        return numbers

    def ints(self) -> row_bytes.Words:
        """Read a varint of at most 32 bits from each row."""
        return self._varints(varint.INT_BYTES_MAX)

    def longs(self) -> row_bytes.Longs:
        """Read a varint of 64 bits from each row."""
        return cast("row_bytes.Longs", self._varints(varint.LONG_BYTES_MAX).view(np.int64))

    def spans(self) -> row_bytes.RowBytes:
        """Read a string that starts with its length from each row."""
        lengths = self.ints().view(np.int64)
        starts = self.at
        self.origin.refuse(lengths > _LENGTH_MAX, "has a negative length")
        self._move(starts + lengths)
        return row_bytes.RowBytes(self.data, starts, self.at)

    def finish(self) -> None:
        """Reject rows with bytes that nobody has read."""
        self.origin.refuse(self.at != self.ends, "is followed by bytes of no column")

    def _varints(self, bytes_max: int) -> row_bytes.Words:
        found = varint.read_varints(self.words, self.at, bytes_max=bytes_max)
        self.origin.refuse(found.too_long, "has a varint that does not end")
        self._move(found.ends)
        return found.values

    def _move(self, to: row_bytes.Longs) -> None:
        self.origin.refuse(to > self.ends, "runs past the end of the row")
        self.at = to


# Rows: null bits first, then the fields that are not null.

_BITS = 8
_LONG_BYTES = 8


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a row: its name, its form, and whether it is nullable."""

    name: str
    form: Form
    arrow: pa.DataType
    nullable: bool


def null_byte_count(field_count: int) -> int:
    """Compute how many bytes of null bits a row starts with."""
    return (field_count + _BITS - 1) // _BITS


def read_rows(
    fields: Sequence[Field], rows: row_bytes.RowBytes, origin: Origin, *, enforce_not_null: bool
) -> list[pa.Array]:
    """Decode all fields of all rows, each of which must end with its last field."""
    if not len(rows):
        return [pa.array([], field.arrow) for field in fields]
    cursor = RowCursor.over(rows, origin.named(f"{origin.field}, its null bits"))
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


def read_all(fields: Sequence[Field], rows: row_bytes.RowBytes, origin: Origin) -> list[pa.Array]:
    """Decode fields of rows without null bits, such as keys."""
    if not len(rows):
        return [pa.array([], field.arrow) for field in fields]
    cursor = RowCursor.over(rows, origin)
    columns = []
    for field in fields:
        cursor.origin = origin.named(_path(origin.field, field.name))
        columns.append(read_field(field.form, cursor))
    cursor.finish()
    return columns


def read_field(form: Form, cursor: RowCursor) -> pa.Array:
    """Decode one value from every row."""
    match form:
        case NumberForm():
            return form.from_numbers(_read_numbers(form, cursor), cursor.origin)
        case InstantForm():
            millis = cursor.longs()
            nanos = cursor.ints().view(np.int64)
            return form.join(millis, nanos, cursor.origin)
        case SpanForm():
            return form.from_spans(cursor.spans(), cursor.origin)


def pass_field(form: Form, cursor: RowCursor) -> None:
    """Skip one value in every row."""
    match form:
        case NumberForm():
            _read_numbers(form, cursor)
        case InstantForm():
            cursor.longs()
            cursor.ints()
        case SpanForm():
            cursor.spans()


def _read_numbers(form: NumberForm, cursor: RowCursor) -> Numbers:
    if not form.is_packed:
        return cursor.fixed(form.dtype)
    if form.dtype.itemsize == _LONG_BYTES:
        return cursor.longs()
    # Bits above the 32nd are dropped, as other readers do.
    return cursor.ints().astype(np.uint32).view(np.int32)


def spread(array: pa.Array, nulls: row_bytes.Mask) -> pa.Array:
    """Insert nulls into an array where the mask says so."""
    places = np.cumsum(~nulls) - 1
    return array.take(pa.array(places, mask=nulls))


def _path(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def _null_bytes(cursor: RowCursor, field_count: int) -> list[row_bytes.Bytes | None]:
    starts, count = cursor.at, null_byte_count(field_count)
    # The bits of all rows must be there before any of them is read.
    cursor.bytes_after(count)
    found = [cursor.data[starts + index] for index in range(count)]
    return [each if np.count_nonzero(each) else None for each in found]


def _nulls(null_byte: row_bytes.Bytes | None, bit: int) -> row_bytes.Mask | None:
    if null_byte is None:
        return None
    nulls = (null_byte & np.uint8(1 << bit)) != 0
    return nulls if np.count_nonzero(nulls) else None


def _read_column(field: Field, cursor: RowCursor, nulls: row_bytes.Mask | None) -> pa.Array:
    if nulls is None:
        return read_field(field.form, cursor)
    present: row_bytes.Longs = np.flatnonzero(~nulls)
    if not len(present):
        return pa.nulls(len(nulls), field.arrow)
    part = cursor.picked(present)
    array = read_field(field.form, part)
    moved = cursor.at.copy()
    moved[present] = part.at
    cursor.at = moved
    return spread(array, nulls)


# Rows from columns: numbers in runs of words, joined with the strings between them. All pieces of a
# run are written as whole words in the order of their bytes; what a word writes past its own bytes
# is overwritten by the pieces after it.

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class WordRun:
    """Pieces of at most 8 bytes that follow each other in every row."""

    __slots__ = ("count", "lengths", "words")

    def __init__(self, count: int) -> None:
        self.count = count
        self.words: list[row_bytes.Words | int] = []
        self.lengths: list[row_bytes.Longs | int] = []

    def add(
        self,
        words: row_bytes.Words | int,
        lengths: row_bytes.Longs | int,
        nulls: row_bytes.Mask | None = None,
    ) -> None:
        """Append a piece to every row that is not null."""
        self.words.append(words)
        self.lengths.append(lengths if nulls is None else np.where(nulls, 0, lengths))

    def add_varints(self, values: row_bytes.Words, nulls: row_bytes.Mask | None = None) -> None:
        """Append a varint to every row that is not null."""
        laid = varint.spread_varints(values)
        self.add(laid.heads, laid.head_lengths, nulls)
        if laid.tails is not None and laid.tail_lengths is not None:
            self.add(laid.tails, laid.tail_lengths, nulls)

    def to_rows(self) -> row_bytes.RowBytes:
        """Write all pieces of all rows."""
        shape = (self.count, len(self.words))
        words, lengths = np.empty(shape, np.uint64), np.empty(shape, np.uint8)
        for index, (word, length) in enumerate(zip(self.words, self.lengths, strict=True)):
            words[:, index], lengths[:, index] = word, length
        places = row_bytes.starts_of(lengths.ravel())
        data = np.zeros(int(places[-1]) + row_bytes.PADDING, np.uint8)
        row_bytes.overlapping_words(data)[places[:-1]] = words.ravel()
        bounds = places[:: len(self.words)]
        return row_bytes.RowBytes(data, bounds[:-1], bounds[1:])

    def to_arrow(self) -> pa.BinaryArray:
        """Write all pieces of all rows into an Arrow array."""
        rows = self.to_rows()
        bounds = np.append(rows.starts, rows.ends[-1:]).astype(np.int32)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(rows.data)]
        return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def write_rows(
    forms: Sequence[Form], columns: Sequence[pa.Array], *, with_null_bits: bool
) -> row_bytes.RowBytes:
    """Write rows of columns of equal length."""
    count = len(columns[0]) if columns else 0
    if not count:
        return row_bytes.RowBytes.of(())
    nulls = [row_bytes.nulls_of(column) if column.null_count else None for column in columns]
    run, parts = WordRun(count), []
    if with_null_bits:
        _add_null_bits(run, nulls)
    for form, column, missing in zip(forms, columns, nulls, strict=True):
        spans = _add_field(run, form, column=column, nulls=missing)
        if spans is not None:
            parts += [run.to_arrow(), spans]
            run = WordRun(count)
    if not parts:
        return run.to_rows()
    return joined([*parts, run.to_arrow()] if run.words else parts)


def joined(parts: Sequence[pa.BinaryArray]) -> row_bytes.RowBytes:
    """Concatenate the parts of each row; nulls are empty."""
    rows = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    return row_bytes.RowBytes.from_arrow(rows)


def as_words(form: NumberForm, column: pa.Array) -> row_bytes.Words:
    """View the bits of the numbers of a column."""
    numbers = np.ascontiguousarray(form.to_numbers(column))
    return numbers.view(_UNSIGNED[form.dtype.itemsize]).astype(np.uint64)


def _add_null_bits(run: WordRun, nulls: Sequence[row_bytes.Mask | None]) -> None:
    for first in range(0, len(nulls), _BITS):
        bits = np.zeros(run.count, np.uint64)
        for index, missing in enumerate(nulls[first : first + _BITS]):
            if missing is not None:
                bits |= missing.astype(np.uint64) << np.uint64(index)
        run.add(bits, 1)


def _add_field(
    run: WordRun, form: Form, *, column: pa.Array, nulls: row_bytes.Mask | None
) -> pa.BinaryArray | None:
    """Add what comes before the bytes of a span, and return the span if there is one."""
    match form:
        case NumberForm(is_packed=False):
            run.add(as_words(form, column), form.dtype.itemsize, nulls)
        case NumberForm():
            run.add_varints(as_words(form, column), nulls)
        case InstantForm():
            millis, nanos = form.split(column)
            run.add_varints(millis.view(np.uint64), nulls)
            run.add_varints(nanos.view(np.uint64), nulls)
        case SpanForm():
            spans = form.to_spans(column)
            run.add_varints(_lengths_of(spans), nulls)
            return spans
    return None


def _lengths_of(spans: pa.BinaryArray) -> row_bytes.Words:
    lengths = pc.binary_length(spans)
    filled = lengths.fill_null(0) if lengths.null_count else lengths
    words: row_bytes.Words = filled.to_numpy().astype(np.uint64)
    return words
