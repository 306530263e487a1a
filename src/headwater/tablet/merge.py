"""From a batch of upserts and deletes to its changelog and the records to keep, as values."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import RecordTooLargeError
from headwater.kv.hashes import KeyGroups
from headwater.kv.heap import APPEND_BYTES_MAX
from headwater.kv.merge.batch import MergePlan, Writes
from headwater.kv.merge.columns import Combining
from headwater.kv.merge.engine import Engine, fold
from headwater.kv.state import FoundKeys, IndexRoom, KvState, any_room
from headwater.rows.changelog import build_changelog
from headwater.rows.kv_batch import KvBatchHeader, KvRecords, build_records
from headwater.rows.row_bytes import PADDING, RowBytes
from headwater.tablet.keyed_table import KeyedTable, TableVersion, concat

HEADER_BYTES = 28
MERGED_BYTES_MAX = 256 << 20
Ids = Callable[[int], npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class NewRecords:
    """Hold records to keep: their bytes, and for each its key, its start and its size."""

    schema_id: int
    data: npt.NDArray[np.uint8]
    keys: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPut:
    """Hold what a batch does, before any of it is done."""

    found: FoundKeys
    changelog: bytes
    records: tuple[NewRecords, ...]
    removed: npt.NDArray[np.int64]
    prefix_hashes: npt.NDArray[np.uint64] | None


@dataclass(frozen=True, slots=True, eq=False)
class PutBatch:
    """Hold one batch as it came, and the rules it is merged by."""

    header: KvBatchHeader
    records: KvRecords
    engine: Engine
    version: TableVersion
    # Whether rows may lack columns that the schema asks for.
    is_partial: bool


def prepare(
    batch: PutBatch,
    *,
    table: KeyedTable,
    state: KvState,
    ids: Ids | None,
    room: IndexRoom = any_room,
) -> PreparedPut:
    """Work out what a batch does to the state.

    1. find what is held for its keys  2. merge  3. build the changelog
    4. collect the records to keep
    """
    groups = state.group(batch.records.keys)
    found = state.reserve(state.find_groups(groups), room=room)
    if isinstance(batch.engine.rule, Combining):
        _check_merged_size(groups, found)
    pool = _Pool(batch, table, groups, found)
    writes = Writes(groups.key_of, batch.records.is_delete, found.is_held, pool.written, pool.held)
    plan = fold(batch.engine, writes, image=batch.version.image, ids=ids)
    changelog = build_changelog(
        pool.changes(plan),
        plan.types,
        schema_id=batch.version.schema_id,
        writer=(batch.header.writer_id, batch.header.batch_sequence),
        codec=batch.version.codec,
        checksum=batch.header.crc,
    )
    return PreparedPut(
        found,
        changelog,
        tuple(_kept(batch, plan, groups, table)),
        np.flatnonzero((plan.final < 0) & found.is_held),
        table.prefix_hashes(state, groups.keys),
    )


def _check_merged_size(groups: KeyGroups, found: FoundKeys) -> None:
    """Refuse a batch whose changelog would show large rows again and again."""
    lengths = np.zeros(len(groups.keys), np.int64)
    lengths[found.is_held] = found.records.lengths
    size = int(lengths[groups.key_of].sum())
    if size > MERGED_BYTES_MAX:
        raise RecordTooLargeError(
            f"Merging shows each row once per record, {size} bytes in all.",
            hint="Write smaller batches.",
        )


class _Pool:
    """Decode the rows of a batch and of the state, as few as the plan asks for."""

    def __init__(
        self, batch: PutBatch, table: KeyedTable, groups: KeyGroups, found: FoundKeys
    ) -> None:
        self._batch = batch
        self._table = table
        self._groups = groups
        self._found = found
        # Kept here rather than by a cache on the methods, which would be a cycle that only the
        # garbage collector frees, and with it the batch.
        self._written_rows: pa.RecordBatch | None = None
        self._held_rows: pa.RecordBatch | None = None

    def written(self) -> pa.RecordBatch:
        """Return the rows of the batch, null rows for deletes."""
        if self._written_rows is None:
            self._written_rows = self._decode_written()
        return self._written_rows

    def held(self) -> pa.RecordBatch:
        """Return the rows that are held for the keys, null rows where there are none."""
        if self._held_rows is None:
            self._held_rows = self._decode_held()
        return self._held_rows

    def changes(self, plan: MergePlan) -> pa.RecordBatch | None:
        """Return the rows that the changelog shows."""
        if not len(plan.types):
            return None
        key_count, record_count = len(self._groups.keys), len(self._batch.records.keys)
        if plan.combined is not None:
            rows = concat([self.held(), self.written(), plan.combined])
            return rows.take(pa.array(plan.sources))
        if self._written_rows is not None:
            return concat([self.held(), self.written()]).take(pa.array(plan.sources))
        rows = self._table.decode(
            *self._joined(plan.sources, key_count),
            wanted=self._batch.version,
            enforce_not_null=not self._batch.is_partial,
        )
        self._check_keys(rows, plan.sources - key_count, record_count)
        return rows

    def _check_keys(
        self, rows: pa.RecordBatch, records: npt.NDArray[np.int64], record_count: int
    ) -> None:
        shown = np.flatnonzero((records >= 0) & (records < record_count))
        chosen = rows.select(self._batch.version.key_names)
        if len(shown) < len(rows):
            chosen = chosen.take(pa.array(shown))
        keys = self._batch.records.keys.take(records[shown])
        self._table.check_keys(chosen, keys, self._batch.version)

    def _joined(
        self, sources: npt.NDArray[np.int64], key_count: int
    ) -> tuple[RowBytes, npt.NDArray[np.int64]]:
        """Return the bytes of rows of the pool, and under which schema each was written."""
        held, written = self._found.records, self._batch.records.rows
        # Row of the heap for each key; keys without one are never shown.
        place = np.cumsum(self._found.is_held) - 1
        is_held = sources < key_count
        data = np.concatenate([held.rows.data, written.data])
        shift = len(held.rows.data)
        starts, ends = np.empty(len(sources), np.int64), np.empty(len(sources), np.int64)
        old, new = place[sources[is_held]], sources[~is_held] - key_count
        starts[is_held], ends[is_held] = held.rows.starts[old], held.rows.ends[old]
        starts[~is_held], ends[~is_held] = written.starts[new] + shift, written.ends[new] + shift
        schema_ids = np.full(len(sources), self._batch.header.schema_id, np.int64)
        schema_ids[is_held] = held.schema_ids[old]
        return RowBytes(data, starts, ends), schema_ids

    def _decode_written(self) -> pa.RecordBatch:
        records, version = self._batch.records, self._batch.version
        upserts = np.flatnonzero(~records.is_delete)
        rows = self._table.decode(
            records.rows.take(upserts),
            np.full(len(upserts), self._batch.header.schema_id, np.int64),
            wanted=version,
            enforce_not_null=not self._batch.is_partial,
        )
        self._table.check_keys(rows, records.keys.take(upserts), version)
        return rows if len(upserts) == len(records.keys) else _spread(rows, ~records.is_delete)

    def _decode_held(self) -> pa.RecordBatch:
        records = self._found.records
        rows = self._table.decode(
            records.rows, records.schema_ids, wanted=self._batch.version, enforce_not_null=False
        )
        return rows if len(rows) == len(self._groups.keys) else _spread(rows, self._found.is_held)


def _spread(rows: pa.RecordBatch, is_there: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """Put null rows between rows, where none is there."""
    indices = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
    nullable = pa.schema([field.with_nullable(True) for field in rows.schema])
    columns = [column.take(indices) for column in rows.columns]
    spread = pa.RecordBatch.from_arrays(columns, schema=nullable)
    return pa.RecordBatch.from_arrays(spread.columns, schema=rows.schema)


def _kept(
    batch: PutBatch, plan: MergePlan, groups: KeyGroups, table: KeyedTable
) -> list[NewRecords]:
    """Return the records that the state keeps from now on."""
    key_count, record_count = len(groups.keys), len(batch.records.keys)
    sources = plan.final - key_count
    kept = []
    as_written = np.flatnonzero((sources >= 0) & (sources < record_count))
    if len(as_written):
        kept.append(_as_written(batch, as_written, sources[as_written]))
    combined = np.flatnonzero(sources >= record_count)
    if len(combined):
        assert plan.combined is not None
        rows = plan.combined.take(pa.array(sources[combined] - record_count))
        encoded = table.encode(rows, batch.version.schema_id)
        keys = groups.keys.take(combined)
        kept.append(_new_records(keys, encoded, combined, batch.version.schema_id))
    return kept


def _as_written(
    batch: PutBatch, keys: npt.NDArray[np.int64], sources: npt.NDArray[np.int64]
) -> NewRecords:
    records, schema_id = batch.records, batch.header.schema_id
    if len(keys) < len(records.keys):
        chosen = records.keys.take(sources), records.rows.take(sources)
        return _new_records(*chosen, keys, schema_id)
    data = records.rows.data[HEADER_BYTES : batch.header.size]
    starts = records.starts[sources]
    return NewRecords(
        schema_id, data, keys, starts - HEADER_BYTES, records.rows.ends[sources] - starts
    )


def _new_records(
    keys: RowBytes, rows: RowBytes, numbers: npt.NDArray[np.int64], schema_id: int
) -> NewRecords:
    data, starts = build_records(keys, rows)
    data = data[: len(data) - PADDING]
    if len(data) > APPEND_BYTES_MAX:
        raise RecordTooLargeError(
            f"The merged rows take more than {APPEND_BYTES_MAX} bytes.",
            hint="Write fewer rows at a time.",
        )
    sizes = np.diff(np.append(starts, len(data)))
    return NewRecords(schema_id, data, numbers, starts, sizes)
