"""Binary arrays: many arrays of one element type, read as one flat list of elements.

    count i32 | null bits, padded to 4 bytes | a slot of 1, 2, 4 or 8 bytes per element | tail

A slot for a string has its top bit set if it holds the string itself, up to 7 bytes with the
length in its last byte. Otherwise it holds `offset << 32 | size`, counted from the start of the
array. A slot for an instant holds the offset of its milliseconds and, in place of a size, its
nanoseconds.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.rows.compacted.forms import Form, InstantForm, NumberForm, SpanForm
from headwater.rows.compacted.origin import Origin
from headwater.rows.compacted.row_read import Field, spread
from headwater.rows.row_bytes import (
    Longs,
    Mask,
    RowBytes,
    Words,
    overlapping,
    overlapping_words,
    starts_of,
)

COUNT_BYTES = 4
SLOT_BYTES = 8
INLINE_BYTES_MAX = 7
_NULL_WORD_BITS = 32
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFF_FFFF)
_INLINE = np.uint64(1 << 63)
_INLINE_LENGTH = np.uint64(0x7F)
_INLINE_SHIFT = np.uint64(56)


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """Hold the elements of many arrays as one, and where the elements of each array start."""

    offsets: Longs
    values: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class _Slots:
    """Hold where slots lie, and the array around each of them."""

    at: Longs
    owners: Longs
    arrays: RowBytes

    @property
    def words(self) -> Words:
        return overlapping_words(self.arrays.data)[self.at]

    def start(self, offsets: Longs) -> Longs:
        return self.arrays.starts[self.owners] + offsets

    def is_outside(self, offsets: Longs, sizes: Longs | int) -> Mask:
        return offsets + sizes > self.arrays.lengths[self.owners]


def header_bytes(counts: Longs) -> Longs:
    """Return how many bytes lie before the slots of arrays with this many elements."""
    return COUNT_BYTES + (counts + _NULL_WORD_BITS - 1) // _NULL_WORD_BITS * 4


def slot_bytes(form: Form) -> int:
    """Return the width of a slot for values of this form."""
    return form.dtype.itemsize if isinstance(form, NumberForm) else SLOT_BYTES


def read_elements(element: Field, arrays: RowBytes, origin: Origin) -> Elements:
    """Read all elements of all arrays."""
    counts = _counts(arrays, origin)
    headers, width = header_bytes(counts), slot_bytes(element.form)
    origin.refuse(headers + counts * width > arrays.lengths, "has more elements than bytes")
    offsets = starts_of(counts)
    owners = np.repeat(np.arange(len(arrays)), counts)
    inner = origin.picked(owners).named(f"{origin.field}.{element.name}")
    positions = np.arange(len(owners)) - offsets[:-1][owners]
    starts = arrays.starts[owners]
    null_bytes = arrays.data[starts + COUNT_BYTES + (positions >> 3)]
    nulls = (null_bytes >> (positions & 7).astype(np.uint8) & np.uint8(1)) != 0
    slots = _Slots(starts + headers[owners] + positions * width, owners, arrays)
    return Elements(offsets, _read_present(element, slots, nulls=nulls, origin=inner))


def _counts(arrays: RowBytes, origin: Origin) -> Longs:
    origin.refuse(arrays.lengths < COUNT_BYTES, "is too short for an array")
    counts = overlapping(arrays.data, np.int32)[arrays.starts].astype(np.int64)
    origin.refuse(counts < 0, "has a negative number of elements")
    return counts


def _read_present(element: Field, slots: _Slots, *, nulls: Mask, origin: Origin) -> pa.Array:
    if not nulls.any():
        return _read_slots(element.form, slots, origin)
    if not element.nullable:
        origin.refuse_nulls(nulls)
    present = np.flatnonzero(~nulls)
    if not len(present):
        return pa.nulls(len(nulls), element.arrow)
    part = _Slots(slots.at[present], slots.owners[present], slots.arrays)
    return spread(_read_slots(element.form, part, origin.picked(present)), nulls)


def _read_slots(form: Form, slots: _Slots, origin: Origin) -> pa.Array:
    match form:
        case NumberForm():
            numbers = overlapping(slots.arrays.data, form.dtype)[slots.at]
            return form.from_numbers(numbers, origin)
        case InstantForm():
            return _read_instants(form, slots, origin)
        case SpanForm():
            return form.from_spans(_spans(slots, origin), origin)


def _read_instants(form: InstantForm, slots: _Slots, origin: Origin) -> pa.Array:
    words = slots.words
    offsets = (words >> _HALF).view(np.int64)
    origin.refuse(slots.is_outside(offsets, SLOT_BYTES), "points out of its array")
    millis = overlapping_words(slots.arrays.data)[slots.start(offsets)].view(np.int64)
    return form.join(millis, (words & _LOW_HALF).view(np.int64), origin)


def _spans(slots: _Slots, origin: Origin) -> RowBytes:
    words = slots.words
    is_inline = words >= _INLINE
    sizes = np.where(is_inline, words >> _INLINE_SHIFT & _INLINE_LENGTH, words & _LOW_HALF)
    lengths = sizes.view(np.int64)
    origin.refuse(is_inline & (lengths > INLINE_BYTES_MAX), "does not fit into its slot")
    offsets = np.where(is_inline, 0, (words >> _HALF).view(np.int64))
    origin.refuse(slots.is_outside(offsets, lengths), "points out of its array")
    _refuse_sharing(slots, lengths, origin)
    starts = np.where(is_inline, slots.at, slots.start(offsets))
    return RowBytes(slots.arrays.data, starts, starts + lengths)


def _refuse_sharing(slots: _Slots, lengths: Longs, origin: Origin) -> None:
    """Refuse elements that share bytes: a few of them could stand for any amount of memory."""
    taken = np.bincount(slots.owners, weights=lengths, minlength=len(slots.arrays))
    is_over = taken > slots.arrays.lengths
    origin.refuse(is_over[slots.owners], "shares bytes with another element")
