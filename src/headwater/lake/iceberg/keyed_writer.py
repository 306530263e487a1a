"""Changes of one bucket of a keyed table, written as data files and deletes of older rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.lake.folding import last_of_each
from headwater.lake.iceberg.columns import FileColumns
from headwater.lake.iceberg.data_files import DataFiles, FileNames
from headwater.lake.iceberg.deletes import Deletes
from headwater.lake.iceberg.opening import reached
from headwater.lake.iceberg.positions import OlderRows
from headwater.lake.iceberg.results import Written
from headwater.lake.iceberg.spread import check_bucket
from headwater.lake.iceberg.tasks import BucketTask, HeldFile, task_of
from headwater.lake.iceberg.values import Place
from headwater.lake.spi import WriteResult, WriteTask
from headwater.lake.table import LakeTableSpec

_HELD_BYTES_MAX = 256 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class KeyedWriter:
    """Write what became of keys. Used by one thread, once.

    Changes are held up to a size, folded to the last one of each key, and written. Rows that they
    replace are not touched: their positions are noted as deleted.
    """

    spec: LakeTableSpec
    task: WriteTask
    bucket: BucketTask
    columns: FileColumns
    files: DataFiles
    older: OlderRows
    deletes: Deletes
    held_bytes_max: int = _HELD_BYTES_MAX
    rows: int = 0
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _deleted: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    _held_bytes: int = 0

    @classmethod
    def of(
        cls, spec: LakeTableSpec, task: WriteTask, *, config: Mapping[str, str]
    ) -> "KeyedWriter":
        """Begin to write a bucket."""
        bucket = task_of(task)
        place = bucket.place
        io = place.io(config)
        columns = FileColumns.of(place, spec)
        names = FileNames(place=place, partition=task.partition, bucket=task.bucket)
        return cls(
            spec=spec,
            task=task,
            bucket=bucket,
            columns=columns,
            files=DataFiles.of(place, names, io=io, schema=columns.schema),
            older=OlderRows(io, _keys(columns, place, spec), list(bucket.held)),
            deletes=Deletes(io, names),
        )

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Take changes in the order of the log."""
        if not self._held:
            check_bucket(self.spec, rows, bucket=self.task.bucket)
        self._held.append(self.columns.fitted(rows))
        self._deleted.append(
            np.zeros(rows.num_rows, np.bool_)
            if deleted is None
            else deleted.to_numpy(zero_copy_only=False)
        )
        self._held_bytes += self._held[-1].nbytes
        if self._held_bytes >= self.held_bytes_max:
            with reached("Writing to the lake"):
                self._flush()
                # Later changes may replace these rows, so they have to be found again.
                self.older.files = [*self.older.files, *self._own_files()]

    def finish(self) -> WriteResult:
        """Close the files and say what they are."""
        with reached("Writing to the lake"):
            self._flush()
            data = self.files.finish()
            for held in self.older.files:
                taken = self.older.taken.get(held.file.file_path)
                if taken is not None:
                    self.deletes.write(held, taken)
        written = Written(
            added=(*data, *self.deletes.added),
            removed=tuple(self.deletes.removed),
            needed=tuple(self.deletes.needed),
            on=self.bucket.on,
            seen=tuple(held.file.file_path for held in self.bucket.held),
        )
        return written.to_result(
            partition=self.task.partition, bucket=self.task.bucket, rows=self.rows
        )

    def abort(self) -> None:
        """Remove what was written; never raises."""
        self._held.clear()
        self.files.abort()
        self.deletes.abort()

    def _flush(self) -> None:
        """Fold what is held, note which older rows it replaces, and write what is left of it."""
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held, self.columns.schema)
        deleted = np.concatenate(self._deleted)
        self._held, self._deleted, self._held_bytes = [], [], 0
        keys = [rows.column(name) for name in self.older.keys.names]
        last = last_of_each(keys)
        if self.older.files:
            self.older.take_away([key.take(pa.array(last)) for key in keys])
        kept = last[~deleted[last]]
        if len(kept) != rows.num_rows:
            rows = rows.combine_chunks().take(pa.array(kept))
        for batch in rows.to_batches():
            self.files.write(batch)
        self.rows += len(kept)

    def _own_files(self) -> list[HeldFile]:
        known = {held.file.file_path for held in self.older.files}
        return [HeldFile(file, ()) for file in self.files.finish() if file.file_path not in known]


def _keys(columns: FileColumns, place: Place, spec: LakeTableSpec) -> pa.Schema:
    """Return the columns that tell rows of one bucket apart, as they stand in data files."""
    by_id = {field.field_id: at for at, field in enumerate(place.schema.fields)}
    # All rows of a partition share the rest of the key.
    names = spec.row_keys or spec.schema.primary_key
    ids = [place.ids.fields[spec.schema.column(name).column_id] for name in names]
    return pa.schema([columns.schema.field(by_id[field_id]) for field_id in ids])
