"""Binary arrays of a flat list of elements, all at once; see `array_read` for the layout."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.rows.compacted.array_read import (
    COUNT_BYTES,
    INLINE_BYTES_MAX,
    SLOT_BYTES,
    header_bytes,
    slot_bytes,
)
from headwater.rows.compacted.forms import Form, InstantForm, NumberForm, SpanForm
from headwater.rows.compacted.row_write import as_words
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

_NO_BYTES = np.zeros(PADDING, np.uint8)
_HALF = np.uint64(32)
_BYTE_BITS = np.uint64(8)
_INLINE_MARK = np.uint64(0x80)
_INLINE_SHIFT = np.uint64(56)


@dataclass(frozen=True, slots=True, eq=False)
class _Tails:
    """Hold what elements keep behind the slots, the room that takes, and what their slots say.

    The slot of an element with a tail still misses the offset of the tail.
    """

    values: RowBytes
    room: Longs
    slots: Words
    has_tail: Mask


def write_arrays(form: Form, counts: Longs, elements: pa.Array) -> RowBytes:
    """Write one array per count, of so many elements each."""
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
    """Return slots that hold their string; those of longer strings mean nothing."""
    sizes = np.minimum(spans.lengths, INLINE_BYTES_MAX).view(np.uint64)
    kept = (np.uint64(1) << sizes * _BYTE_BITS) - np.uint64(1)
    words = overlapping_words(spans.data)[spans.starts]
    return words & kept | (sizes | _INLINE_MARK) << _INLINE_SHIFT


def _put_nulls(data: Bytes, *, starts: Longs, positions: Longs) -> None:
    bits = np.uint8(1) << (positions & 7).astype(np.uint8)
    np.bitwise_or.at(data, starts + COUNT_BYTES + (positions >> 3), bits)


def _put_strings(data: Bytes, *, at: Longs, strings: RowBytes) -> None:
    """Copy strings to where they go, byte by byte but all of them at once."""
    lengths = strings.lengths
    firsts = starts_of(lengths)
    steps = np.arange(firsts[-1])
    sources = np.repeat(strings.starts - firsts[:-1], lengths) + steps
    data[np.repeat(at - firsts[:-1], lengths) + steps] = strings.data[sources]


def _rounded(sizes: Longs) -> Longs:
    return (sizes + SLOT_BYTES - 1) // SLOT_BYTES * SLOT_BYTES
