"""Writing the rows of one bucket into files that nobody sees yet."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.lake.folding import in_key_order, last_of_each
from headwater.lake.paimon.data_files import DataFiles
from headwater.lake.paimon.layout import DELETED, INSERTED, FileLayout, key_columns
from headwater.lake.paimon.place import Place, TaskPayload
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.spi import LakeWriter, WriteResult, WriteTask
from headwater.runtime.clock import Clock

# Rows by key are folded in memory; more of them than this become a further run.
_BUFFER_BYTES_MAX = 256 * 1024 * 1024


def open_writer(table: PaimonTable, task: WriteTask, clock: Clock) -> LakeWriter:
    """Return what writes the rows of a task."""
    payload = TaskPayload.from_bytes(task.payload)
    place = Place.of(table, task.partition, task.bucket)
    settings = place.settings(schema_id=payload.schema_id, sequence_start=payload.sequence_start)
    files = DataFiles(place.directory, settings, clock)
    if table.spec.is_keyed:
        return KeyedWriter(place, files, settings.layout, start=payload.sequence_start)
    return LogWriter(place, files, settings.layout)


class LogWriter:
    """Write rows as they come."""

    def __init__(self, place: Place, files: DataFiles, layout: FileLayout) -> None:
        self._place = place
        self._files = files
        self._layout = layout

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Take rows of the table's schema."""
        assert deleted is None, "only rows by key can be deleted"
        if rows.num_rows:
            self._files.write(pa.Table.from_batches([self._layout.values(rows)]))

    def finish(self) -> WriteResult:
        """Close the files and say what they are."""
        return self._place.result(self._files.finish())

    def abort(self) -> None:
        """Remove what was written; never raises."""
        self._files.abort()


class KeyedWriter:
    """Write the last row of each key, sorted, with the number that says how recent it is."""

    def __init__(self, place: Place, files: DataFiles, layout: FileLayout, *, start: int) -> None:
        self._place = place
        self._files = files
        self._layout = layout
        self._next = start
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Take rows of the table's schema; where `deleted` is true the key goes."""
        if not rows.num_rows:
            return
        values = self._layout.values(rows)
        sequences = pa.array(np.arange(self._next, self._next + rows.num_rows))
        self._next += rows.num_rows
        kinds = _kinds(rows.num_rows, deleted)
        table = self._layout.keyed(pa.Table.from_batches([values]), sequences, kinds)
        self._held.extend(table.to_batches())
        self._held_bytes += table.nbytes
        if self._held_bytes >= _BUFFER_BYTES_MAX:
            self._flush()

    def finish(self) -> WriteResult:
        """Close the files and say what they are."""
        self._flush()
        return self._place.result(self._files.written)

    def abort(self) -> None:
        """Remove what was written; never raises."""
        self._held = []
        self._files.abort()

    def _flush(self) -> None:
        """Write what is held as one sorted run; a file never spans two runs."""
        if self._held:
            rows = pa.Table.from_batches(self._held)
            self._held, self._held_bytes = [], 0
            self._files.write(folded(rows, self._layout))
        self._files.finish()


def _kinds(count: int, deleted: pa.BooleanArray | None) -> pa.Array:
    if deleted is None:
        return pa.array(np.full(count, INSERTED, np.int8))
    mask = deleted.to_numpy(zero_copy_only=False)
    return pa.array(np.where(mask, DELETED, INSERTED).astype(np.int8))


def folded(rows: pa.Table, layout: FileLayout) -> pa.Table:
    """Return the last row of each key, in the order of the keys."""
    keys = key_columns(rows, layout.keys)
    if any(pa.types.is_floating(key.type) for key in keys):
        # Sorting holds both zeros to be the same key, and leaves their rows mixed.
        last = last_of_each(keys)
        found = rows.select(list(layout.keys)).take(pa.array(last))
        return rows.take(pa.array(last[in_key_order(found.columns)]))
    order = in_key_order(keys)
    return rows.take(pa.array(order[_ends_of_runs(rows.select(list(layout.keys)), order)]))


def _ends_of_runs(keys: pa.Table, order: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell of each place in an order whether the next one has another key."""
    is_end = np.ones(len(order), np.bool_)
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in keys.take(pa.array(order)).combine_chunks().columns:
        values = column.combine_chunks()
        same &= pc.equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    is_end[:-1] = ~same
    return is_end
