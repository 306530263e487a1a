"""Nested values: arrays, maps and rows.

Many arrays of one element type are read and written as one flat list of elements.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.rows import row_bytes
from headwater.rows.compacted import row
from headwater.rows.compacted.forms import Form, InstantForm, NumberForm, Origin, SpanForm
from headwater.rows.compute import pc

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

    offsets: row_bytes.Longs
    values: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class _Slots:
    """The positions of slots, and the array around each of them."""

    at: row_bytes.Longs
    owners: row_bytes.Longs
    arrays: row_bytes.RowBytes

    @property
    def words(self) -> row_bytes.Words:
        return row_bytes.overlapping_words(self.arrays.data)[self.at]

    def start(self, offsets: row_bytes.Longs) -> row_bytes.Longs:
        return self.arrays.starts[self.owners] + offsets

    def is_outside(self, offsets: row_bytes.Longs, sizes: row_bytes.Longs | int) -> row_bytes.Mask:
        return offsets + sizes > self.arrays.lengths[self.owners]


def header_bytes(counts: row_bytes.Longs) -> row_bytes.Longs:
    """Compute the bytes before the slots of arrays with this many elements."""
    return COUNT_BYTES + (counts + _NULL_WORD_BITS - 1) // _NULL_WORD_BITS * 4


def slot_bytes(form: Form) -> int:
    """Compute the width of a slot for values of this form."""
    return form.dtype.itemsize if isinstance(form, NumberForm) else SLOT_BYTES


def read_elements(element: row.Field, arrays: row_bytes.RowBytes, origin: Origin) -> Elements:
    """Decode all elements of all arrays."""
    counts = _counts(arrays, origin)
    headers, width = header_bytes(counts), slot_bytes(element.form)
    origin.refuse(headers + counts * width > arrays.lengths, "has more elements than bytes")
    offsets = row_bytes.starts_of(counts)
    owners = np.repeat(np.arange(len(arrays)), counts)
    inner = origin.picked(owners).named(f"{origin.field}.{element.name}")
    positions = np.arange(len(owners)) - offsets[:-1][owners]
    starts = arrays.starts[owners]
    null_bytes = arrays.data[starts + COUNT_BYTES + (positions >> 3)]
    nulls = (null_bytes >> (positions & 7).astype(np.uint8) & np.uint8(1)) != 0
    slots = _Slots(starts + headers[owners] + positions * width, owners, arrays)
    return Elements(offsets, _read_present(element, slots, nulls=nulls, origin=inner))


def _counts(arrays: row_bytes.RowBytes, origin: Origin) -> row_bytes.Longs:
    origin.refuse(arrays.lengths < COUNT_BYTES, "is too short for an array")
    counts = row_bytes.overlapping(arrays.data, np.int32)[arrays.starts].astype(np.int64)
    origin.refuse(counts < 0, "has a negative number of elements")
    return counts


def _read_present(
    element: row.Field, slots: _Slots, *, nulls: row_bytes.Mask, origin: Origin
) -> pa.Array:
    if not nulls.any():
        return _read_slots(element.form, slots, origin)
    if not element.nullable:
        origin.refuse_nulls(nulls)
    present = np.flatnonzero(~nulls)
    if not len(present):
        return pa.nulls(len(nulls), element.arrow)
    part = _Slots(slots.at[present], slots.owners[present], slots.arrays)
    return row.spread(_read_slots(element.form, part, origin.picked(present)), nulls)


def _read_slots(form: Form, slots: _Slots, origin: Origin) -> pa.Array:
    match form:
        case NumberForm():
            numbers = row_bytes.overlapping(slots.arrays.data, form.dtype)[slots.at]
            return form.from_numbers(numbers, origin)
        case InstantForm():
            return _read_instants(form, slots, origin)
        case SpanForm():
            return form.from_spans(_spans(slots, origin), origin)


def _read_instants(form: InstantForm, slots: _Slots, origin: Origin) -> pa.Array:
    words = slots.words
    offsets = (words >> _HALF).view(np.int64)
    origin.refuse(slots.is_outside(offsets, SLOT_BYTES), "points outside of its array")
    millis = row_bytes.overlapping_words(slots.arrays.data)[slots.start(offsets)].view(np.int64)
    return form.join(millis, (words & _LOW_HALF).view(np.int64), origin)


def _spans(slots: _Slots, origin: Origin) -> row_bytes.RowBytes:
    words = slots.words
    is_inline = words >= _INLINE
    sizes = np.where(is_inline, words >> _INLINE_SHIFT & _INLINE_LENGTH, words & _LOW_HALF)
    lengths = sizes.view(np.int64)
    origin.refuse(is_inline & (lengths > INLINE_BYTES_MAX), "does not fit into its slot")
    offsets = np.where(is_inline, 0, (words >> _HALF).view(np.int64))
    origin.refuse(slots.is_outside(offsets, lengths), "points outside of its array")
    _refuse_sharing(slots, lengths, origin)
    starts = np.where(is_inline, slots.at, slots.start(offsets))
    return row_bytes.RowBytes(slots.arrays.data, starts, starts + lengths)


def _refuse_sharing(slots: _Slots, lengths: row_bytes.Longs, origin: Origin) -> None:
    """Reject elements that share bytes: a few of them could expand to any amount of memory."""
    taken = np.bincount(slots.owners, weights=lengths, minlength=len(slots.arrays))
    is_over = taken > slots.arrays.lengths
    origin.refuse(is_over[slots.owners], "shares bytes with another element")


_NO_BYTES = np.zeros(row_bytes.PADDING, np.uint8)
_BYTE_BITS = np.uint64(8)
_INLINE_MARK = np.uint64(0x80)


@dataclass(frozen=True, slots=True, eq=False)
class _Tails:
    """What elements store after the slots, the space that takes, and the slots themselves.

    The slot of an element with a tail still lacks the offset of the tail.
    """

    values: row_bytes.RowBytes
    room: row_bytes.Longs
    slots: row_bytes.Words
    has_tail: row_bytes.Mask


def write_arrays(form: Form, counts: row_bytes.Longs, elements: pa.Array) -> row_bytes.RowBytes:
    """Encode one array per count, with so many elements each."""
    owners = np.repeat(np.arange(len(counts)), counts)
    headers, width = header_bytes(counts), slot_bytes(form)
    fixed, tails = _rounded(headers + counts * width), _tails_of(form, elements)
    room, firsts = row_bytes.starts_of(tails.room), row_bytes.starts_of(counts)
    bounds = row_bytes.starts_of(fixed + np.diff(room[firsts]))
    data = np.zeros(int(bounds[-1]) + row_bytes.PADDING, np.uint8)
    row_bytes.overlapping(data, np.int32)[bounds[:-1]] = counts
    starts, positions = bounds[owners], np.arange(len(owners)) - firsts[owners]
    nulls = row_bytes.nulls_of(elements)
    _put_nulls(data, starts=starts[nulls], positions=positions[nulls])
    # Where the tail of an element goes, counted from the start of its array.
    offsets = fixed[owners] + room[:-1] - room[firsts[owners]]
    slots = np.where(tails.has_tail, tails.slots | offsets.view(np.uint64) << _HALF, tails.slots)
    at = (starts + headers[owners] + positions * width)[~nulls]
    row_bytes.overlapping(data, f"u{width}")[at] = slots[~nulls]
    _put_strings(data, at=starts + offsets, strings=tails.values)
    return row_bytes.RowBytes(data, bounds[:-1], bounds[1:])


def _tails_of(form: Form, elements: pa.Array) -> _Tails:
    match form:
        case NumberForm():
            count = len(elements)
            nothing = np.zeros(count, np.int64)
            words = row.as_words(form, elements)
            return _Tails(
                row_bytes.RowBytes(_NO_BYTES, nothing, nothing), nothing, words, nothing != 0
            )
        case InstantForm():
            return _instant_tails(form, elements)
        case SpanForm():
            return _span_tails(form, elements)


def _instant_tails(form: InstantForm, elements: pa.Array) -> _Tails:
    millis, nanos = form.split(elements)
    is_there = ~row_bytes.nulls_of(elements)
    data = np.append(millis, np.zeros(row_bytes.PADDING // SLOT_BYTES, np.int64)).view(np.uint8)
    starts = np.arange(len(millis), dtype=np.int64) * SLOT_BYTES
    room = np.where(is_there, SLOT_BYTES, 0)
    return _Tails(
        row_bytes.RowBytes(data, starts, starts + room), room, nanos.view(np.uint64), is_there
    )


def _span_tails(form: SpanForm, elements: pa.Array) -> _Tails:
    spans = row_bytes.RowBytes.from_arrow(form.to_spans(elements))
    lengths = spans.lengths
    is_inline = (lengths <= INLINE_BYTES_MAX) & form.is_inlined
    has_tail = ~is_inline & ~row_bytes.nulls_of(elements)
    room = np.where(has_tail, form.reserved_bytes or _rounded(lengths), 0)
    sizes = lengths.view(np.uint64)
    slots = np.where(is_inline, _inlined(spans), sizes)
    values = row_bytes.RowBytes(
        spans.data, spans.starts, np.where(has_tail, spans.ends, spans.starts)
    )
    return _Tails(values, room, slots, has_tail)


def _inlined(spans: row_bytes.RowBytes) -> row_bytes.Words:
    """Build slots that contain their string; those of longer strings are meaningless."""
    sizes = np.minimum(spans.lengths, INLINE_BYTES_MAX).view(np.uint64)
    kept = (np.uint64(1) << sizes * _BYTE_BITS) - np.uint64(1)
    words = row_bytes.overlapping_words(spans.data)[spans.starts]
    return words & kept | (sizes | _INLINE_MARK) << _INLINE_SHIFT


def _put_nulls(
    data: row_bytes.Bytes, *, starts: row_bytes.Longs, positions: row_bytes.Longs
) -> None:
    bits = np.uint8(1) << (positions & 7).astype(np.uint8)
    np.bitwise_or.at(data, starts + COUNT_BYTES + (positions >> 3), bits)


def _put_strings(
    data: row_bytes.Bytes, *, at: row_bytes.Longs, strings: row_bytes.RowBytes
) -> None:
    """Copy strings to their positions, byte by byte but all of them at once."""
    lengths = strings.lengths
    firsts = row_bytes.starts_of(lengths)
    steps = np.arange(firsts[-1])
    sources = np.repeat(strings.starts - firsts[:-1], lengths) + steps
    data[np.repeat(at - firsts[:-1], lengths) + steps] = strings.data[sources]


def _rounded(sizes: row_bytes.Longs) -> row_bytes.Longs:
    return (sizes + SLOT_BYTES - 1) // SLOT_BYTES * SLOT_BYTES


# The forms of arrays, maps and rows.


@dataclass(frozen=True, slots=True)
class RowForm(SpanForm):
    """Rows inside of rows."""

    fields: tuple[row.Field, ...]

    def from_spans(self, spans: row_bytes.RowBytes, origin: Origin, /) -> pa.Array:
        """Decode rows from strings."""
        columns = row.read_rows(self.fields, spans, origin, enforce_not_null=True)
        return pa.Array.from_buffers(self.arrow, len(spans), [None], children=columns)

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Encode rows."""
        if not self.fields:
            return pa.array([b""] * len(array), pa.binary())
        # Flattening makes the fields of null rows null.
        forms = [field.form for field in self.fields]
        return _blanked(row.write_rows(forms, array.flatten(), with_null_bits=True), array)


@dataclass(frozen=True, slots=True)
class ArrayForm(SpanForm):
    """Arrays of one element type."""

    element: row.Field

    def from_spans(self, spans: row_bytes.RowBytes, origin: Origin, /) -> pa.Array:
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

    key: row.Field
    value: row.Field

    def from_spans(self, spans: row_bytes.RowBytes, origin: Origin, /) -> pa.Array:
        """Decode maps from strings."""
        keys, values = self._read(spans, origin)
        fields = [self.arrow.key_field, self.arrow.item_field]
        entries = pa.StructArray.from_arrays([keys.values, values.values], fields=fields)
        return _lists(self.arrow, keys.offsets, entries)

    def _read(self, spans: row_bytes.RowBytes, origin: Origin) -> tuple[Elements, Elements]:
        origin.refuse(spans.lengths < COUNT_BYTES, "is too short for a map")
        sizes = row_bytes.overlapping(spans.data, np.int32)[spans.starts].astype(np.int64)
        starts = spans.starts + COUNT_BYTES
        is_outside = (sizes < 0) | (starts + sizes > spans.ends)
        origin.refuse(is_outside, "has keys that run past its end")
        keys = read_elements(
            self.key, row_bytes.RowBytes(spans.data, starts, starts + sizes), origin
        )
        rest = row_bytes.RowBytes(spans.data, starts + sizes, spans.ends)
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
        sizes = row.WordRun(len(array))
        sizes.add(keys.lengths.view(np.uint64), COUNT_BYTES)
        maps = row.joined([sizes.to_arrow(), keys.to_arrow(), values.to_arrow()])
        return _blanked(maps, array)


def _lists(arrow: pa.DataType, offsets: row_bytes.Longs, values: pa.Array) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(arrow, len(offsets) - 1, buffers, children=[values])


def _list_lengths(array: pa.Array) -> row_bytes.Longs:
    counts: row_bytes.Longs = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    return counts


def _blanked(rows: row_bytes.RowBytes, array: pa.Array) -> pa.BinaryArray:
    """Build an Arrow array of rows in which nulls are empty."""
    if array.null_count:
        ends = np.where(row_bytes.nulls_of(array), rows.starts, rows.ends)
        return row_bytes.RowBytes(rows.data, rows.starts, ends).to_arrow()
    return rows.to_arrow()
