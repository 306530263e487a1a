"""A few numbers that stand for many rows in any order, and that can be added and taken away."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kv.hashing import hash_keys
from headwater.model.types import DataType
from headwater.rows.compacted.encode import RowEncoder
from headwater.rows.row_bytes import Words

_SEED = 0x6C616B655F726F77
_ALL = 2**64 - 1
_MIX_FACTOR = np.uint64(0x94D049BB133111EB)
_MIX_SHIFT = np.uint64(31)


@dataclass(frozen=True, slots=True)
class Digest:
    """Stand for rows: how many, and two sums over a hash of each.

    Rows that are taken away count below zero, so that a sum does not depend on the order.
    """

    count: int = 0
    total: int = 0
    mixed: int = 0

    def __add__(self, other: "Digest") -> "Digest":
        """Return the digest of both."""
        return Digest(
            self.count + other.count,
            self.total + other.total & _ALL,
            self.mixed + other.mixed & _ALL,
        )

    def __sub__(self, other: "Digest") -> "Digest":
        """Return the digest of these without the others."""
        return Digest(
            self.count - other.count,
            self.total - other.total & _ALL,
            self.mixed - other.mixed & _ALL,
        )


NOTHING = Digest()


def digest_of(hashes: Words) -> Digest:
    """Return the digest of rows whose hashes these are."""
    # A second sum of another shape: wrong rows that even out in one do not in the other.
    mixed = (hashes ^ hashes >> _MIX_SHIFT) * _MIX_FACTOR
    return Digest(len(hashes), int(hashes.sum(dtype=np.uint64)), int(mixed.sum(dtype=np.uint64)))


class RowHasher:
    """Hash rows of one schema, alike wherever they were stored meanwhile."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._encoder = RowEncoder.of(types)

    def hashes(self, rows: pa.RecordBatch) -> Words:
        """Return the hash of each row."""
        if not rows.num_rows:
            return np.empty(0, np.uint64)
        columns = [_canonical(column) for column in rows.columns]
        return hash_keys(self._encoder.encode(columns), seed=_SEED)

    def digest(self, rows: pa.RecordBatch) -> Digest:
        """Return the digest of rows."""
        return digest_of(self.hashes(rows))


def _canonical(column: pa.Array) -> pa.Array:
    """Return values with one zero and one NaN, of which files and engines keep no others apart."""
    kind = column.type
    if not _holds_floats(kind):
        return column
    if pa.types.is_floating(kind):
        added = pc.add(column, pa.scalar(0.0, kind))  # which makes 0.0 of -0.0
        return pc.if_else(pc.is_nan(added), pa.scalar(float("nan"), kind), added)
    if pa.types.is_struct(kind):
        children = [_canonical(child) for child in column.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())
    inner = _entries(column) if pa.types.is_map(kind) else _canonical(column.values)
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(kind, len(column), buffers, offset=column.offset, children=[inner])


def _entries(column: pa.MapArray) -> pa.StructArray:
    fields = [column.type.key_field, column.type.item_field]
    children = [_canonical(column.keys), _canonical(column.items)]
    return pa.StructArray.from_arrays(children, fields=fields)


def _holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_holds_floats(kind.field(at).type) for at in range(kind.num_fields))
