"""Fingerprints of keys and rows, the same for a row of the state and for its last change."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.audit.files.bodies import read_rows
from headwater.audit.files.catalog_seen import TableSeen
from headwater.audit.files.folding import Mask, Words
from headwater.kv.hashing import hash_keys
from headwater.kv.heap import Records
from headwater.rows.evolution import adapted
from headwater.rows.log_batch import BatchHeader, ChangeType
from headwater.tablet.keyed_table import KeyedTable

SEED = 0x5EED


class Fingerprints:
    """Bring rows into one form, that of the newest schema, and hash it."""

    def __init__(self, table: TableSeen) -> None:
        self._table = table
        self._coder = KeyedTable(table)

    def of_state(self, records: Records) -> tuple[Words, Words]:
        """Return those of rows that a state holds; a row whose key is another's is refused."""
        version = self._coder.latest()
        rows = self._coder.decode(
            records.rows, records.schema_ids, wanted=version, enforce_not_null=False
        )
        self._coder.check_keys(rows, records.keys, version)
        return hash_keys(records.keys, seed=SEED), self._rows(rows)

    def of_changes(self, header: BatchHeader, batch: memoryview) -> tuple[Words, Words, Mask]:
        """Return those of changes, and which of them are deletes."""
        schema, version = self._table.schema(header.schema_id), self._coder.latest()
        types, rows = read_rows(batch, header, schema)
        shown = np.flatnonzero(types != ChangeType.UPDATE_BEFORE)
        rows = adapted(rows.take(pa.array(shown)).columns, schema, version.schema)
        keys = self._coder.encode_keys(rows, version.key_names)
        is_delete: npt.NDArray[np.bool_] = types[shown] == ChangeType.DELETE
        return hash_keys(keys, seed=SEED), self._rows(rows), is_delete

    def _rows(self, rows: pa.RecordBatch) -> Words:
        version = self._coder.latest()
        return hash_keys(self._coder.encode(rows, version.schema_id), seed=SEED)
