"""Where the rows of a lane are cut into batches, the same in every attempt."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.schema import Schema
from headwater.model.types import ArrayType, DataType, MapType, RowType
from headwater.rows.compacted.encode import RowEncoder
from headwater.rows.row_bytes import Longs, starts_of

# Not settings: an attempt by a newer version has to cut as the older one did.
BATCH_ROWS_MAX = 65_536
BATCH_BYTES_MAX = 2 * 1024 * 1024

_NESTED = (ArrayType, MapType, RowType)
_BITS = 8


class Sizes:
    """Measure rows of one table: by their values only, not by how they lie in memory."""

    def __init__(self, schema: Schema) -> None:
        self._types = {column.name: column.type for column in schema.columns}
        self._nested = {
            name: RowEncoder.of([kind])
            for name, kind in self._types.items()
            if isinstance(kind, _NESTED)
        }

    def of(self, batch: pa.RecordBatch) -> Longs:
        """Return about how many bytes each row takes."""
        sizes = np.zeros(batch.num_rows, np.int64)
        for field, column in zip(batch.schema, batch.columns, strict=True):
            sizes += self._column(field.name, column)
        return sizes

    def _column(self, name: str, column: pa.Array) -> Longs | int:
        if name in self._nested:
            return self._nested[name].encode([column]).lengths
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths: Longs = pc.fill_null(pc.binary_length(column), 0).to_numpy()
            return lengths
        return column.type.bit_width // _BITS or 1


def cuts_of(sizes: Longs, *, rows_max: int, bytes_max: int) -> list[slice]:
    """Return batches of rows that lie one after the other; a row alone may be larger."""
    ends, batches, start = starts_of(sizes), [], 0
    while start < len(sizes):
        fitting = int(np.searchsorted(ends, ends[start] + bytes_max, side="right")) - 1
        end = min(max(fitting, start + 1), start + rows_max, len(sizes))
        batches.append(slice(start, end))
        start = end
    return batches


def is_nested(kind: DataType) -> bool:
    """Tell whether values of a type hold other values."""
    return isinstance(kind, _NESTED)


def batches_of(places: Longs, sizes: Longs) -> Sequence[Longs]:
    """Return the places of rows that make up each batch."""
    cuts = cuts_of(sizes, rows_max=BATCH_ROWS_MAX, bytes_max=BATCH_BYTES_MAX)
    return [places[cut] for cut in cuts]
