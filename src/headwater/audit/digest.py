"""Rows and keys as 64-bit hashes, and digests of many rows in any order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kv.hashes import hash_keys
from headwater.model import DataType, TableInfo
from headwater.rows.compacted.coders import KeyEncoder, RowEncoder
from headwater.rows.row_bytes import Words

# Digests of many rows in any order, which can be added and subtracted.

_SEED = 0x6C616B655F726F77
_ALL = 2**64 - 1
_MIX_FACTOR = np.uint64(0x94D049BB133111EB)
_MIX_SHIFT = np.uint64(31)


@dataclass(frozen=True, slots=True)
class Digest:
    """Represents rows: their number, and two sums over a hash of each.

    Removed rows count negatively, so that a sum does not depend on the order.
    """

    count: int = 0
    total: int = 0
    mixed: int = 0

    def __add__(self, other: "Digest") -> "Digest":
        """The digest of both."""
        return Digest(
            self.count + other.count,
            self.total + other.total & _ALL,
            self.mixed + other.mixed & _ALL,
        )

    def __sub__(self, other: "Digest") -> "Digest":
        """The digest of these without the others."""
        return Digest(
            self.count - other.count,
            self.total - other.total & _ALL,
            self.mixed - other.mixed & _ALL,
        )


NOTHING = Digest()


def digest_of(hashes: Words) -> Digest:
    """Digest of rows, given their hashes."""
    # A second sum of another shape: errors that cancel out in one do not in the other.
    mixed = (hashes ^ hashes >> _MIX_SHIFT) * _MIX_FACTOR
    return Digest(len(hashes), int(hashes.sum(dtype=np.uint64)), int(mixed.sum(dtype=np.uint64)))


class RowHasher:
    """Hashes rows of one schema, independent of how they were stored."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._encoder = RowEncoder.of(types)

    def hashes(self, rows: pa.RecordBatch) -> Words:
        """Hash each row."""
        if not rows.num_rows:
            return np.empty(0, np.uint64)
        columns = [_canonical(column) for column in rows.columns]
        return hash_keys(self._encoder.encode(columns), seed=_SEED)

    def digest(self, rows: pa.RecordBatch) -> Digest:
        """Digest of rows."""
        return digest_of(self.hashes(rows))


def _canonical(column: pa.Array) -> pa.Array:
    """Normalize zeros and NaNs, which files and engines do not keep apart."""
    if not _holds_floats(column.type):
        return column
    # Copied, so that nothing in it begins after the start of its buffers.
    return _rebuilt(column.take(pa.array(np.arange(len(column)))))


def _rebuilt(column: pa.Array) -> pa.Array:
    kind, count = column.type, len(column)
    assert column.offset == 0, "a copied column begins at its start"
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
    added = pc.add(column, pa.scalar(0.0, kind))  # turns -0.0 into 0.0
    return pc.if_else(pc.is_nan(added), pa.scalar(float("nan"), kind), added).buffers()[1]


def _holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_holds_floats(kind.field(at).type) for at in range(kind.num_fields))


# Two seeds, so that a key and a row that is only its key have different prints.
_KEY_SEED, _ROW_SEED = 0x6B65795F7072696E, 0x726F775F7072696E
_KEY_SHOWN_MAX = 200


class Prints:
    """Hashes the rows of a primary-key table; equal rows have equal prints."""

    def __init__(self, table: TableInfo, *, through_lake: bool = False) -> None:
        schema = table.schema
        types = [column.type for column in schema.columns]
        self.key = schema.primary_key
        self._keys = KeyEncoder.of([schema.column(name).type for name in self.key])
        self._rows = RowEncoder.of(types)
        # Lakes do not keep the two zeros apart.
        self._hasher = RowHasher(types) if through_lake else None

    def keys(self, rows: pa.RecordBatch) -> Words:
        """Hash the key of each row."""
        encoded = self._keys.encode([rows.column(name) for name in self.key])
        return hash_keys(encoded, seed=_KEY_SEED)

    def rows(self, rows: pa.RecordBatch) -> Words:
        """Hash each whole row, with all columns of the table in order."""
        if self._hasher is not None:
            return self._hasher.hashes(rows)
        return hash_keys(self._rows.encode(rows.columns), seed=_ROW_SEED)

    def shown(self, rows: pa.RecordBatch, at: int) -> str:
        """The key of a row as people write it."""
        values = rows.select(list(self.key)).slice(at, 1).to_pylist()[0]
        text = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return text if len(text) <= _KEY_SHOWN_MAX else text[: _KEY_SHOWN_MAX - 1] + "…"
