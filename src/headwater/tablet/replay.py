"""Bring a state to where its log is: the newest snapshot, then the changes since."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import HeadwaterError, KvStorageError
from headwater.kv.heap import ABSENT, Heap
from headwater.kv.index import HashIndex, PrefixIndex
from headwater.kv.state import KvState
from headwater.kv.store import KvStore, LoadedSnapshot
from headwater.log.log import Log
from headwater.log.scan import StoredBatch
from headwater.model.arrow import arrow_schema
from headwater.rows.changelog import read_changelog
from headwater.rows.compute import pc
from headwater.rows.join import read_parts
from headwater.rows.kv_batch import build_records
from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import PADDING, RowBytes
from headwater.tablet.keyed_table import AutoIds, KeyedTable, age_span_ms, seal_aged

Seed = Callable[[], int]


@dataclass(frozen=True, slots=True, eq=False)
class RecoveredState:
    """Hold a state that is where its log ends."""

    state: KvState
    ids: AutoIds
    replayed_from: int


def recover_state(
    log: Log, store: KvStore, table: KeyedTable, *, seed: Seed, segment_bytes_max: int
) -> RecoveredState:
    """Build the state of a bucket.

    1. take the newest whole snapshot that the log reaches  2. replay the log from there
    3. remove the files that are not needed any more
    """
    loaded = _load(store, log)
    offset = loaded.snapshot.offset if loaded else 0
    if offset < log.start_offset:
        raise KvStorageError(
            f"The rows cannot be rebuilt: the log starts at {log.start_offset}, but"
            f" {'the newest whole snapshot' if loaded else 'a rebuild'} needs it from {offset}.",
            hint="Restore the files of the bucket's kv directory from a backup.",
        )
    state = _state_of(loaded, table, seed=seed, segment_bytes_max=segment_bytes_max)
    ids = AutoIds(table.reserve_ids, loaded.snapshot.ids if loaded else None)
    replay = _Replay(state, table, ids)
    try:
        for batch in log.batches(offset, up_to=log.end_offset):
            replay.take(batch)
    except HeadwaterError as fault:
        raise KvStorageError(
            f"The rows cannot be rebuilt from the log: {fault}",
            hint="If the machine lost power, `headwater repair` cuts the log where damage begins;"
            " else restore the bucket from a backup. Its log can still be read.",
        ) from fault
    except OSError as error:
        raise KvStorageError(
            f"The rows cannot be rebuilt, since the log cannot be read: {error}.",
            hint="Check the disk, then restart the server.",
        ) from error
    store.tidy()
    return RecoveredState(state, ids, offset)


def _load(store: KvStore, log: Log) -> LoadedSnapshot | None:
    try:
        return store.load(offset_min=log.start_offset, offset_max=log.end_offset)
    except OSError as error:
        raise KvStorageError(
            f"The files of the rows cannot be read: {error}.",
            hint="Check the disk, then restart the server; the log can still be read.",
        ) from error


def _state_of(
    loaded: LoadedSnapshot | None, table: KeyedTable, *, seed: Seed, segment_bytes_max: int
) -> KvState:
    heap = Heap(segment_bytes_max)
    prefixes = PrefixIndex() if table.prefix_count else None
    if loaded is None:
        return KvState(seed(), heap, prefixes=prefixes)
    snapshot = loaded.snapshot
    for number, segment in loaded.segments.items():
        heap.put(number, segment)
    if prefixes is not None and snapshot.prefixes is not None:
        prefixes = PrefixIndex(*snapshot.prefixes)
    index = HashIndex.of(snapshot.hashes, snapshot.locations)
    return KvState(snapshot.seed, heap, index, dict(snapshot.collided), prefixes)


@dataclass(frozen=True, slots=True)
class _Moment:
    """Say under which schema and when rows were written."""

    schema_id: int
    timestamp_ms: int


class _Replay:
    """Apply changelog batches to a state."""

    def __init__(self, state: KvState, table: KeyedTable, ids: AutoIds) -> None:
        self._state = state
        self._table = table
        self._ids = ids

    def take(self, batch: StoredBatch) -> None:
        """Apply one batch: the last change of each key counts."""
        if not batch.header.record_count:
            return
        batch.verify()
        schema = self._table.schema(batch.header.schema_id)
        data = batch.read(0, batch.header.size)
        types, rows = read_changelog(data, batch.header, arrow_schema(schema))
        shown = np.flatnonzero(types != ChangeType.UPDATE_BEFORE)
        if len(shown) < len(types):
            types, rows = types[shown], rows.take(pa.array(shown))
        self._skip_ids(rows, schema.auto_increment)
        times = read_parts(data, batch.header).row_timestamps()[shown]
        for start, end in self._stretches(times):
            part = rows.slice(start, end - start)
            keys = self._table.encode_keys(part, self._table.latest().key_names)
            moment = _Moment(batch.header.schema_id, int(times[end - 1]))
            self._apply(keys, types[start:end], part, moment)

    def _stretches(self, times: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Cut the rows of a joined batch where they are too far apart in age to lie together."""
        span_ms, start = age_span_ms(self._table.latest()), 0
        while start < len(times):
            end = len(times)
            if span_ms is not None:
                end = int(np.searchsorted(times, times[start] + span_ms, side="right"))
            yield start, end
            start = end

    def _apply(
        self,
        keys: RowBytes,
        types: npt.NDArray[np.uint8],
        rows: pa.RecordBatch,
        written: _Moment,
    ) -> None:
        state = self._state
        groups = state.group(keys)
        found = state.reserve(state.find_groups(groups))
        last = np.zeros(len(groups.keys), np.int64)
        last[groups.key_of] = np.arange(len(keys))
        kept = np.flatnonzero(types[last] != ChangeType.DELETE)
        encoded = self._table.encode(rows.take(pa.array(last[kept])), written.schema_id)
        data, starts = build_records(groups.keys.take(kept), encoded)
        data = data[: len(data) - PADDING]
        locations = np.full(len(groups.keys), ABSENT, np.int64)
        sizes = np.zeros(len(groups.keys), np.int64)
        if len(kept):
            seal_aged(state.heap, self._table.latest(), written.timestamp_ms)
            base = state.heap.append(
                data, schema_id=written.schema_id, timestamp_ms=written.timestamp_ms
            )
            locations[kept] = base + starts
            sizes[kept] = np.diff(np.append(starts, len(data)))
        prefix_hashes = self._table.prefix_hashes(state, groups.keys)
        state.apply(found, locations, sizes=sizes, prefix_hashes=prefix_hashes)

    def _skip_ids(self, rows: pa.RecordBatch, names: tuple[str, ...]) -> None:
        for name in names:
            used = pc.max(rows.column(name)).as_py()
            if used is not None:
                self._ids.skip(used)
