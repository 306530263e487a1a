"""Decode the rows inside batches, and fingerprint the last change of every key."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.audit.files.catalog import TableSeen
from headwater.errors import HeadwaterError
from headwater.kv.hashes import hash_keys
from headwater.kv.heap import Records
from headwater.model import Schema
from headwater.model.arrow import arrow_schema
from headwater.rows.compacted.coders import adapted
from headwater.rows.log_batch import BatchHeader, ChangeType, read_sections
from headwater.tablet.keyed_table import KeyedTable

# Decoding the rows inside batches, to prove that they can be decoded.

FAULTS_MAX = 10


def read_rows(
    batch: memoryview, header: BatchHeader, schema: Schema
) -> tuple[npt.NDArray[np.uint8], pa.RecordBatch]:
    """Decode the change types and rows of a batch; an append-only one has zeros for types."""
    arrow = arrow_schema(schema)
    if not header.record_count:
        return np.empty(0, np.uint8), pa.RecordBatch.from_pylist([], schema=arrow)
    sections = read_sections(batch, header)
    types = np.frombuffer(batch[sections.changes_start : sections.changes_end], np.uint8)
    if header.is_append_only:
        types = np.zeros(header.record_count, np.uint8)
    message = batch[sections.changes_end : header.size]
    stream = pa.ipc.open_stream(b"".join((arrow.serialize().to_pybytes(), message)))
    rows = stream.read_next_batch()
    rows.validate(full=True)
    if len(rows) != header.record_count:
        raise pa.ArrowInvalid(f"it has {len(rows)} rows, but its header says {header.record_count}")
    return types, rows


@dataclass(slots=True)
class Bodies:
    """Checks that a batch's schema is known and, in a deep audit, that its rows can be decoded."""

    table: TableSeen
    deep: bool
    rows: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        """Check one batch; after many faults, another one says nothing new."""
        if len(self.faults) >= FAULTS_MAX:
            return
        try:
            schema = self.table.schema(header.schema_id)
            if self.deep:
                read_rows(batch, header, schema)
                self.rows += header.record_count
        except (HeadwaterError, pa.ArrowException) as fault:
            self.faults.append((header.base_offset, str(fault)))


# The last change of every key, kept as fingerprints of keys and rows.

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
ROWS_WAITING_MIN = 1 << 20


def _nothing() -> Words:
    return np.empty(0, np.uint64)


@dataclass(slots=True)
class Fold:
    """Applies changes in order; deleted keys are forgotten."""

    keys: Words = field(default_factory=_nothing)
    rows: Words = field(default_factory=_nothing)
    _waiting: list[tuple[Words, Words, Mask]] = field(default_factory=list)
    _waiting_count: int = 0

    def take(self, keys: Words, rows: Words, is_delete: Mask) -> None:
        """Add changes; they are buffered until sorting them in is worthwhile."""
        self._waiting.append((keys, rows, is_delete))
        self._waiting_count += len(keys)
        if self._waiting_count > max(ROWS_WAITING_MIN, len(self.keys)):
            self._settle()

    def result(self) -> tuple[Words, Words]:
        """The remaining keys, ordered by fingerprint, and their rows."""
        self._settle()
        return self.keys, self.rows

    def _settle(self) -> None:
        keys = np.concatenate([self.keys, *(each for each, _, _ in self._waiting)])
        rows = np.concatenate([self.rows, *(each for _, each, _ in self._waiting)])
        held = np.zeros(len(self.keys), np.bool_)
        is_delete = np.concatenate([held, *(each for _, _, each in self._waiting)])
        order = np.argsort(keys, kind="stable")
        is_last = np.ones(len(keys), np.bool_)
        is_last[:-1] = keys[order][1:] != keys[order][:-1]
        left = order[is_last]
        left = left[~is_delete[left]]
        self.keys, self.rows = keys[left], rows[left]
        self._waiting, self._waiting_count = [], 0


@dataclass(frozen=True, slots=True)
class Difference:
    """Counts how two sets of rows differ."""

    missing: int
    extra: int
    other: int

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.other)


def difference(expected: tuple[Words, Words], found: tuple[Words, Words]) -> Difference:
    """Compare rows that are sorted by key."""
    (keys, rows), (found_keys, found_rows) = expected, found
    common, at, found_at = np.intersect1d(keys, found_keys, return_indices=True)
    return Difference(
        missing=len(keys) - len(common),
        extra=len(found_keys) - len(common),
        other=int((rows[at] != found_rows[found_at]).sum()),
    )


# Fingerprints of keys and rows, the same for a row of the state and for its last change.

SEED = 0x5EED


class Fingerprints:
    """Converts rows to the newest schema, and hashes them."""

    def __init__(self, table: TableSeen) -> None:
        self._table = table
        self._coder = KeyedTable(table)

    def of_state(self, records: Records) -> tuple[Words, Words]:
        """Fingerprint the rows of a state; raises for a row under another key."""
        version = self._coder.latest()
        rows = self._coder.decode(
            records.rows, records.schema_ids, wanted=version, enforce_not_null=False
        )
        self._coder.check_keys(rows, records.keys, version)
        return hash_keys(records.keys, seed=SEED), self._rows(rows)

    def of_changes(self, header: BatchHeader, batch: memoryview) -> tuple[Words, Words, Mask]:
        """Fingerprint changes, and mark which of them are deletes."""
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
