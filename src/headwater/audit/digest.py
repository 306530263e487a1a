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
    if not _holds_floats(column.type):
        return column
    # Taken anew, so that nothing in it begins behind the start of its buffers.
    return _rebuilt(column.take(pa.array(np.arange(len(column)))))


def _rebuilt(column: pa.Array) -> pa.Array:
    kind, count = column.type, len(column)
    assert column.offset == 0, "a column that was taken anew begins at its start"
    validity, *others = column.buffers()[: 1 if pa.types.is_struct(kind) else 2]
    if pa.types.is_floating(kind):
        return pa.Array.from_buffers(kind, count, [validity, _numbers(column)])
    if not _holds_floats(kind):
        return column
    children = [_rebuilt(child) for child in _children(column)]
    if pa.types.is_map(kind):
        fields = [kind.key_field, kind.item_field]
        children = [pa.StructArray.from_arrays(children, fields=fields)]
    return pa.Array.from_buffers(kind, count, [validity, *others], children=children)


def _children(column: pa.Array) -> list[pa.Array]:
    kind = column.type
    if pa.types.is_struct(kind):
        return [column.field(at) for at in range(kind.num_fields)]
    return [column.keys, column.items] if pa.types.is_map(kind) else [column.values]


def _numbers(column: pa.Array) -> pa.Buffer:
    kind = column.type
    added = pc.add(column, pa.scalar(0.0, kind))  # which makes 0.0 of -0.0
    return pc.if_else(pc.is_nan(added), pa.scalar(float("nan"), kind), added).buffers()[1]


def _holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_holds_floats(kind.field(at).type) for at in range(kind.num_fields))
