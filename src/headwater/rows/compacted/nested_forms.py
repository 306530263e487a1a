"""Values that hold other values: arrays, maps and rows."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.rows.compacted.array_read import COUNT_BYTES, Elements, read_elements
from headwater.rows.compacted.array_write import write_arrays
from headwater.rows.compacted.forms import SpanForm
from headwater.rows.compacted.origin import Origin
from headwater.rows.compacted.row_read import Field, read_rows
from headwater.rows.compacted.row_write import Run, joined, write_rows
from headwater.rows.row_bytes import Longs, RowBytes, nulls_of, overlapping


@dataclass(frozen=True, slots=True)
class RowForm(SpanForm):
    """Hold rows inside of rows."""

    fields: tuple[Field, ...]

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Return the rows in these strings."""
        columns = read_rows(self.fields, spans, origin, enforce_not_null=True)
        return pa.Array.from_buffers(self.arrow, len(spans), [None], children=columns)

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Return the bytes of rows."""
        if not self.fields:
            return pa.array([b""] * len(array), pa.binary())
        # Flattening passes the nulls of rows on to their fields, which then hold nothing odd.
        forms = [field.form for field in self.fields]
        return _blanked(write_rows(forms, array.flatten(), with_null_bits=True), array)


@dataclass(frozen=True, slots=True)
class ArrayForm(SpanForm):
    """Hold arrays."""

    element: Field

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Return the arrays in these strings."""
        found = read_elements(self.element, spans, origin)
        return _lists(self.arrow, found.offsets, found.values)

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Return the bytes of arrays."""
        return _blanked(write_arrays(self.element.form, _counts(array), array.flatten()), array)


@dataclass(frozen=True, slots=True)
class MapForm(SpanForm):
    """Hold maps, as an array of keys behind its size and an array of values."""

    key: Field
    value: Field

    def from_spans(self, spans: RowBytes, origin: Origin, /) -> pa.Array:
        """Return the maps in these strings."""
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
        origin.refuse(differs, "has not as many keys as values")
        return keys, values

    def _as_lists(self, array: pa.MapArray) -> pa.ListArray:
        """Return the same entries as lists, which Arrow can do more with."""
        fields = [self.arrow.key_field, self.arrow.item_field]
        entries = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
        lists, buffers = pa.list_(entries.type), array.buffers()[:2]
        return pa.Array.from_buffers(
            lists, len(array), buffers, offset=array.offset, children=[entries]
        )

    def to_spans(self, array: pa.Array) -> pa.BinaryArray:
        """Return the bytes of maps."""
        lists = self._as_lists(array)
        counts, entries = _counts(lists), lists.flatten()
        keys = write_arrays(self.key.form, counts, entries.field(0))
        values = write_arrays(self.value.form, counts, entries.field(1))
        sizes = Run(len(array))
        sizes.add(keys.lengths.view(np.uint64), COUNT_BYTES)
        maps = joined([sizes.to_arrow(), keys.to_arrow(), values.to_arrow()])
        return _blanked(maps, array)


def _lists(arrow: pa.DataType, offsets: Longs, values: pa.Array) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(arrow, len(offsets) - 1, buffers, children=[values])


def _counts(array: pa.Array) -> Longs:
    counts: Longs = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    return counts


def _blanked(rows: RowBytes, array: pa.Array) -> pa.BinaryArray:
    """Return rows as an Arrow array in which those of nulls are empty."""
    if array.null_count:
        ends = np.where(nulls_of(array), rows.starts, rows.ends)
        return RowBytes(rows.data, rows.starts, ends).to_arrow()
    return rows.to_arrow()
