"""Rows and keys as 64 bits each, so that many of them can be compared in little memory."""

import pyarrow as pa

from headwater.audit.digest import RowHasher
from headwater.kv.hashing import hash_keys
from headwater.model.table import TableInfo
from headwater.rows.compacted.encode import RowEncoder
from headwater.rows.compacted.keys import KeyEncoder
from headwater.rows.row_bytes import Words

# Two seeds, so that a key and a row that is nothing but its key have different prints.
_KEY_SEED, _ROW_SEED = 0x6B65795F7072696E, 0x726F775F7072696E
_KEY_SHOWN_MAX = 200


class Prints:
    """Print the rows of a primary-key table; equal rows have equal prints."""

    def __init__(self, table: TableInfo, *, through_lake: bool = False) -> None:
        schema = table.schema
        types = [column.type for column in schema.columns]
        self.key = schema.primary_key
        self._keys = KeyEncoder.of([schema.column(name).type for name in self.key])
        self._rows = RowEncoder.of(types)
        # Lakes keep no two zeros apart.
        self._hasher = RowHasher(types) if through_lake else None

    def keys(self, rows: pa.RecordBatch) -> Words:
        """Return the print of each key."""
        encoded = self._keys.encode([rows.column(name) for name in self.key])
        return hash_keys(encoded, seed=_KEY_SEED)

    def rows(self, rows: pa.RecordBatch) -> Words:
        """Return the print of each whole row, whose columns are those of the table in order."""
        if self._hasher is not None:
            return self._hasher.hashes(rows)
        return hash_keys(self._rows.encode(rows.columns), seed=_ROW_SEED)

    def shown(self, rows: pa.RecordBatch, at: int) -> str:
        """Return the key of a row as people write it."""
        values = rows.select(list(self.key)).slice(at, 1).to_pylist()[0]
        text = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return text if len(text) <= _KEY_SHOWN_MAX else text[: _KEY_SHOWN_MAX - 1] + "…"
