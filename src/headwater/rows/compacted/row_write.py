"""Rows from columns: numbers in runs of words, joined with the strings between them.

All pieces of a run are written in the order of their bytes as whole words. What a word writes
past its own bytes is overwritten by the pieces after it.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.rows.compacted.forms import Form, InstantForm, NumberForm, SpanForm
from headwater.rows.compacted.varint import spread_varints
from headwater.rows.row_bytes import (
    PADDING,
    Longs,
    Mask,
    RowBytes,
    Words,
    nulls_of,
    overlapping_words,
    starts_of,
)

_BITS = 8
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Run:
    """Collect pieces of at most 8 bytes that follow each other in every row."""

    __slots__ = ("count", "lengths", "words")

    def __init__(self, count: int) -> None:
        self.count = count
        self.words: list[Words | int] = []
        self.lengths: list[Longs | int] = []

    def add(self, words: Words | int, lengths: Longs | int, nulls: Mask | None = None) -> None:
        """Append a piece to every row that is not null."""
        self.words.append(words)
        self.lengths.append(lengths if nulls is None else np.where(nulls, 0, lengths))

    def add_varints(self, values: Words, nulls: Mask | None = None) -> None:
        """Append a varint to every row that is not null."""
        laid = spread_varints(values)
        self.add(laid.heads, laid.head_lengths, nulls)
        if laid.tails is not None and laid.tail_lengths is not None:
            self.add(laid.tails, laid.tail_lengths, nulls)

    def to_rows(self) -> RowBytes:
        """Write all pieces of all rows."""
        shape = (self.count, len(self.words))
        words, lengths = np.empty(shape, np.uint64), np.empty(shape, np.uint8)
        for index, (word, length) in enumerate(zip(self.words, self.lengths, strict=True)):
            words[:, index], lengths[:, index] = word, length
        places = starts_of(lengths.ravel())
        data = np.zeros(int(places[-1]) + PADDING, np.uint8)
        overlapping_words(data)[places[:-1]] = words.ravel()
        bounds = places[:: len(self.words)]
        return RowBytes(data, bounds[:-1], bounds[1:])

    def to_arrow(self) -> pa.BinaryArray:
        """Write all pieces of all rows into an Arrow array."""
        rows = self.to_rows()
        bounds = np.append(rows.starts, rows.ends[-1:]).astype(np.int32)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(rows.data)]
        return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def write_rows(
    forms: Sequence[Form], columns: Sequence[pa.Array], *, with_null_bits: bool
) -> RowBytes:
    """Write rows of columns of equal length."""
    count = len(columns[0]) if columns else 0
    if not count:
        return RowBytes.of(())
    nulls = [nulls_of(column) if column.null_count else None for column in columns]
    run, parts = Run(count), []
    if with_null_bits:
        _add_null_bits(run, nulls)
    for form, column, missing in zip(forms, columns, nulls, strict=True):
        spans = _add_field(run, form, column=column, nulls=missing)
        if spans is not None:
            parts += [run.to_arrow(), spans]
            run = Run(count)
    if not parts:
        return run.to_rows()
    return joined([*parts, run.to_arrow()] if run.words else parts)


def joined(parts: Sequence[pa.BinaryArray]) -> RowBytes:
    """Return rows of which each is one string of every part; nulls are empty."""
    rows = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    return RowBytes.from_arrow(rows)


def as_words(form: NumberForm, column: pa.Array) -> Words:
    """Return the bits of the numbers of a column."""
    numbers = np.ascontiguousarray(form.to_numbers(column))
    return numbers.view(_UNSIGNED[form.dtype.itemsize]).astype(np.uint64)


def _add_null_bits(run: Run, nulls: Sequence[Mask | None]) -> None:
    for first in range(0, len(nulls), _BITS):
        bits = np.zeros(run.count, np.uint64)
        for index, missing in enumerate(nulls[first : first + _BITS]):
            if missing is not None:
                bits |= missing.astype(np.uint64) << np.uint64(index)
        run.add(bits, 1)


def _add_field(
    run: Run, form: Form, *, column: pa.Array, nulls: Mask | None
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


def _lengths_of(spans: pa.BinaryArray) -> Words:
    lengths = pc.binary_length(spans)
    filled = lengths.fill_null(0) if lengths.null_count else lengths
    words: Words = filled.to_numpy().astype(np.uint64)
    return words
