"""Nested values: arrays, maps and rows.

Many arrays of one element type are read and written as one flat list of elements.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.rows.compacted.forms import Form, InstantForm, NumberForm, Origin, SpanForm
from headwater.rows.compacted.row import (
    Field,
    WordRun,
    as_words,
    joined,
    read_rows,
    spread,
    write_rows,
)
from headwater.rows.row_bytes import (
    PADDING,
    Bytes,
    Longs,
    Mask,
    RowBytes,
    Words,
    nulls_of,
    overlapping,
    overlapping_words,
    starts_of,
)

# Binary arrays:
#
#   count i32 | null bits, padded to 4 bytes | a slot of 1, 2, 4 or 8 bytes per element | tail
#
# The slot of a string has its top bit set if it contains the string itself, up to 7 bytes with the
# length in its last byte. Otherwise it is `offset << 32 | size`, counted from the start of the
# array. The slot of an instant has the offset of its milliseconds and, in place of a size, its
# nanoseconds.

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
    """The elements of many arrays as one, and where the elements of each array start."""

    offsets: Longs
    values: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class _Slots:
    """The positions of slots, and the array around each of them."""

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
    """Compute the bytes before the slots of arrays with this many elements."""
    return COUNT_BYTES + (counts + _NULL_WORD_BITS - 1) // _NULL_WORD_BITS * 4


def slot_bytes(form: Form) -> int:
    """Compute the width of a slot for values of this form."""
    return form.dtype.itemsize if isinstance(form, NumberForm) else SLOT_BYTES


def read_elements(element: Field, arrays: RowBytes, origin: Origin) -> Elements:
    """Decode all elements of all arrays."""
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
    origin.refuse(slots.is_outside(offsets, SLOT_BYTES), "points outside of its array")
    millis = overlapping_words(slots.arrays.data)[slots.start(offsets)].view(np.int64)
    return form.join(millis, (words & _LOW_HALF).view(np.int64), origin)


def _spans(slots: _Slots, origin: Origin) -> RowBytes:
    words = slots.words
    is_inline = words >= _INLINE
    sizes = np.where(is_inline, words >> _INLINE_SHIFT & _INLINE_LENGTH, words & _LOW_HALF)
    lengths = sizes.view(np.int64)
    origin.refuse(is_inline & (lengths > INLINE_BYTES_MAX), "does not fit into its slot")
    offsets = np.where(is_inline, 0, (words >> _HALF).view(np.int64))
    origin.refuse(slots.is_outside(offsets, lengths), "points outside of its array")
    _refuse_sharing(slots, lengths, origin)
    starts = np.where(is_inline, slots.at, slots.start(offsets))
    return RowBytes(slots.arrays.data, starts, starts + lengths)


def _refuse_sharing(slots: _Slots, lengths: Longs, origin: Origin) -> None:
    """Reject elements that share bytes: a few of them could expand to any amount of memory."""
    taken = np.bincount(slots.owners, weights=lengths, minlength=len(slots.arrays))
    is_over = taken > slots.arrays.lengths
    origin.refuse(is_over[slots.owners], "shares bytes with another element")


_NO_BYTES = np.zeros(PADDING, np.uint8)
_BYTE_BITS = np.uint64(8)
_INLINE_MARK = np.uint64(0x80)


@dataclass(frozen=True, slots=True, eq=False)
class _Tails:
    """What elements store after the slots, the space that takes, and the slots themselves.

    The slot of an element with a tail still lacks the offset of the tail.
    """

    values: RowBytes
    room: Longs
    slots: Words
    has_tail: Mask


def write_arrays(form: Form, counts: Longs, elements: pa.Array) -> RowBytes:
    """Encode one array per count, with so many elements each."""
    owners = np.repeat(np.arange(len(counts)), counts)
    headers, width = header_bytes(counts), slot_bytes(form)
    fixed, tails = _rounded(headers + counts * width), _tails_of(form, elements)
    room, firsts = starts_of(tails.room), starts_of(counts)
    bounds = starts_of(fixed + np.diff(room[firsts]))
    data = np.zeros(int(bounds[-1]) + PADDING, np.uint8)
    overlapping(data, np.int32)[bounds[:-1]] = counts
    starts, positions = bounds[owners], np.arange(len(owners)) - firsts[owners]
    nulls = nulls_of(elements)
    _put_nulls(data, starts=starts[nulls], positions=positions[nulls])
    # Where the tail of an element goes, counted from the start of its array.
    offsets = fixed[owners] + room[:-1] - room[firsts[owners]]
    slots = np.where(tails.has_tail, tails.slots | offsets.view(np.uint64) << _HALF, tails.slots)
    at = (starts + headers[owners] + positions * width)[~nulls]
    overlapping(data, f"u{width}")[at] = slots[~nulls]
    _put_strings(data, at=starts + offsets, strings=tails.values)
    return RowBytes(data, bounds[:-1], bounds[1:])


def _tails_of(form: Form, elements: pa.Array) -> _Tails:
    match form:
        case NumberForm():
            count = len(elements)
            nothing = np.zeros(count, np.int64)
            words = as_words(form, elements)
            return _Tails(RowBytes(_NO_BYTES, nothing, nothing), nothing, words, nothing != 0)
        case InstantForm():
            return _instant_tails(form, elements)
        case SpanForm():
            return _span_tails(form, elements)


def _instant_tails(form: InstantForm, elements: pa.Array) -> _Tails:
    millis, nanos = form.split(elements)
    is_there = ~nulls_of(elements)
    data = np.append(millis, np.zeros(PADDING // SLOT_BYTES, np.int64)).view(np.uint8)
    starts = np.arange(len(millis), dtype=np.int64) * SLOT_BYTES
    room = np.where(is_there, SLOT_BYTES, 0)
    return _Tails(RowBytes(data, starts, starts + room), room, nanos.view(np.uint64), is_there)


def _span_tails(form: SpanForm, elements: pa.Array) -> _Tails:
    spans = RowBytes.from_arrow(form.to_spans(elements))
    lengths = spans.lengths
    is_inline = (lengths <= INLINE_BYTES_MAX) & form.is_inlined
    has_tail = ~is_inline & ~nulls_of(elements)
    room = np.where(has_tail, form.reserved_bytes or _rounded(lengths), 0)
    sizes = lengths.view(np.uint64)
    slots = np.where(is_inline, _inlined(spans), sizes)
    values = RowBytes(spans.data, spans.starts, np.where(has_tail, spans.ends, spans.starts))
    return _Tails(values, room, slots, has_tail)


def _inlined(spans: RowBytes) -> Words:
    """Build slots that contain their string; those of longer strings are meaningless."""
    sizes = np.minimum(spans.lengths, INLINE_BYTES_MAX).view(np.uint64)
    kept = (np.uint64(1) << sizes * _BYTE_BITS) - np.uint64(1)
    words = overlapping_words(spans.data)[spans.starts]
    return words & kept | (sizes | _INLINE_MARK) << _INLINE_SHIFT


def _put_nulls(data: Bytes, *, starts: Longs, positions: Longs) -> None:
    bits = np.uint8(1) << (positions & 7).astype(np.uint8)
    np.bitwise_or.at(data, starts + COUNT_BYTES + (positions >> 3), bits)


def _put_strings(data: Bytes, *, at: Longs, strings: RowBytes) -> None:
    """Copy strings to their positions, byte by byte but all of them at once."""
    lengths = strings.lengths
    firsts = starts_of(lengths)
    steps = np.arange(firsts[-1])
    sources = np.repeat(strings.starts - firsts[:-1], lengths) + steps
    data[np.repeat(at - firsts[:-1], lengths) + steps] = strings.data[sources]


def _rounded(sizes: Longs) -> Longs:
    return (sizes + SLOT_BYTES - 1) // SLOT_BYTES * SLOT_BYTES


# The forms of arrays, maps and rows.


@dataclass(frozen=True, slots=True)
class RowForm(SpanForm):
    """Rows inside of rows."""

    fields: tuple[Field, ...]

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Decode rows from strings."""
        columns = read_rows(self.fields, spans, origin, enforce_not_null=True)
        return pa.Array.from_buffers(self.arrow, len(spans), [None], children=columns)

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Encode rows."""
        if not self.fields:
            return pa.array([b""] * len(array), pa.binary())
        # Flattening makes the fields of null rows null.
        forms = [field.form for field in self.fields]
        return _blanked(write_rows(forms, array.flatten(), with_null_bits=True), array)


@dataclass(frozen=True, slots=True)
class ArrayForm(SpanForm):
    """Arrays of one element type."""

    element: Field

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Decode arrays from strings."""
        found = read_elements(self.element, spans, origin)
        return _lists(self.arrow, found.offsets, found.values)

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Encode arrays."""
        return _blanked(
            write_arrays(self.element.form, _list_lengths(array), array.flatten()), array
        )


@dataclass(frozen=True, slots=True)
class MapForm(SpanForm):
    """Maps: an array of keys after its size, and an array of values."""

    key: Field
    value: Field

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Decode maps from strings."""
        keys, values = self._read(spans, origin)
        fields = [self.arrow.key_field, self.arrow.item_field]
        entries = pa.StructArray.from_arrays([keys.values, values.values], fields=fields)
        return _lists(self.arrow, keys.offsets, entries)

    def _read(self, spans: RowBytes, origin: Origin) -> tuple[Elements, Elements]:
        origin.refuse(spans.lengths < COUNT_BYTES, "is too short for a map")
        sizes = overlapping(spans.data, np.int32)[spans.starts].astype(np.int64)
        starts = spans.starts + COUNT_BYTES
        is_outside = (sizes < 0) | (starts + sizes > spans.ends)
        origin.refuse(is_outside, "has keys that run past its end")
        keys = read_elements(self.key, RowBytes(spans.data, starts, starts + sizes), origin)
        rest = RowBytes(spans.data, starts + sizes, spans.ends)
        values = read_elements(self.value, rest, origin)
        differs = np.diff(keys.offsets) != np.diff(values.offsets)
        origin.refuse(differs, "has a different number of keys and values")
        return keys, values

    def _as_lists(self, array: pa.MapArray) -> pa.ListArray:
        """View the entries as lists, which Arrow supports better."""
        fields = [self.arrow.key_field, self.arrow.item_field]
        entries = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
        lists, buffers = pa.list_(entries.type), array.buffers()[:2]
        return pa.Array.from_buffers(
            lists, len(array), buffers, offset=array.offset, children=[entries]
        )

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Encode maps."""
        lists = self._as_lists(array)
        counts, entries = _list_lengths(lists), lists.flatten()
        keys = write_arrays(self.key.form, counts, entries.field(0))
        values = write_arrays(self.value.form, counts, entries.field(1))
        sizes = WordRun(len(array))
        sizes.add(keys.lengths.view(np.uint64), COUNT_BYTES)
        maps = joined([sizes.to_arrow(), keys.to_arrow(), values.to_arrow()])
        return _blanked(maps, array)


def _lists(arrow: pa.DataType, offsets: Longs, values: pa.Array) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(arrow, len(offsets) - 1, buffers, children=[values])


def _list_lengths(array: pa.Array) -> Longs:
    counts: Longs = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    return counts


def _blanked(rows: RowBytes, array: pa.Array) -> pa.BinaryArray:
    """Build an Arrow array of rows in which nulls are empty."""
    if array.null_count:
        ends = np.where(nulls_of(array), rows.starts, rows.ends)
        return RowBytes(rows.data, rows.starts, ends).to_arrow()
    return rows.to_arrow()
