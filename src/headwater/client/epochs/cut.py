"""Where the rows of a lane are cut into batches, the same in every attempt."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.schema import Schema
from headwater.model.types import ArrayType, DataType, MapType, RowType
from headwater.rows.compacted.encode import RowEncoder
from headwater.rows.row_bytes import Longs, Mask, starts_of

# Not settings: an attempt by a newer version has to cut as the older one did.
BATCH_ROWS_MAX = 65_536
BATCH_BYTES_MAX = 2 * 1024 * 1024
# Rows of one key stay together up to here.
GROUP_ROWS_MAX = 4 * BATCH_ROWS_MAX
GROUP_BYTES_MAX = 4 * BATCH_BYTES_MAX

_NESTED = (ArrayType, MapType, RowType)
_BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Hold the order of rows, and where groups of them begin that share a batch.

    Rows of one key are such a group. An attempt may have them in another order, and must still
    find the same rows in the same batch.
    """

    places: Longs
    starts: Mask


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


def cuts_of(
    sizes: Longs, *, rows_max: int, bytes_max: int, starts: Mask | None = None
) -> list[slice]:
    """Return batches of rows that lie one after the other.

    A batch begins only where `starts` says so, or anywhere. Rows that are not to be parted make a
    batch of their own where they are more than the limits allow.
    """
    if not len(sizes):
        return []
    first = np.arange(len(sizes)) if starts is None else np.flatnonzero(starts)
    # Up to each group, and behind the last.
    rows = np.append(first, len(sizes))
    taken = starts_of(sizes)[rows]
    batches, at = [], 0
    while at < len(first):
        fitting = min(
            int(np.searchsorted(taken, taken[at] + bytes_max, side="right")),
            int(np.searchsorted(rows, rows[at] + rows_max, side="right")),
        )
        following = max(fitting - 1, at + 1)
        batches.append(slice(int(rows[at]), int(rows[following])))
        at = following
    return batches


def is_nested(kind: DataType) -> bool:
    """Tell whether values of a type hold other values."""
    return isinstance(kind, _NESTED)


def batches_of(order: Order, sizes: Longs) -> Sequence[Longs]:
    """Return the places of rows that make up each batch, given their sizes in order."""
    cuts = cuts_of(
        sizes,
        rows_max=BATCH_ROWS_MAX,
        bytes_max=BATCH_BYTES_MAX,
        starts=order.starts | _of_large_groups(order.starts, sizes),
    )
    return [order.places[cut] for cut in cuts]


def _of_large_groups(starts: Mask, sizes: Longs) -> Mask:
    """Tell which rows belong to a group that no server would take as one batch."""
    if not len(sizes):
        return starts
    first = np.flatnonzero(starts)
    counts = np.diff(np.append(first, len(sizes)))
    is_large = (np.add.reduceat(sizes, first) > GROUP_BYTES_MAX) | (counts > GROUP_ROWS_MAX)
    large: Mask = np.repeat(is_large, counts)
    return large
