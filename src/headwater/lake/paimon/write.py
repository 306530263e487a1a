"""Write the rows of one bucket into data files that nobody sees yet."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFileError
from headwater.lake.keys import in_key_order, last_of_each
from headwater.lake.paimon import data_files, manifests
from headwater.lake.paimon.catalog import PaimonTable
from headwater.lake.paimon.layout import DELETED, INSERTED, FileLayout, key_columns
from headwater.lake.paimon.options import compression, number, target_bytes
from headwater.lake.spi import LakeWriter, PartitionValues, WriteResult, WriteTask
from headwater.model.type_json import int_of, object_of
from headwater.runtime.clock import Clock

# Where the files of one bucket lie, and what a writer hands to the committer.

_UNBUCKETED = -1
_ONLY_BUCKET = 0
_NAME = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPayload:
    """What a writer cannot know itself."""

    schema_id: int
    sequence_start: int
    """Sequence number of its first row, after all that the bucket holds."""

    def to_bytes(self) -> bytes:
        """Encode it as the payload of a task."""
        return json.dumps({"schema": self.schema_id, "sequence": self.sequence_start}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "TaskPayload":
        """Decode the payload of a task."""
        try:
            node = object_of(json.loads(data), what="task")
        except ValueError as fault:
            raise CorruptFileError(f"A task of a lake writer cannot be read: {fault}.") from fault
        return cls(schema_id=int_of(node, "schema"), sequence_start=int_of(node, "sequence"))


@dataclass(frozen=True, slots=True)
class PaimonBucket:
    """One bucket of a lake table."""

    table: PaimonTable
    partition: PartitionValues
    bucket: int
    """Bucket of the table."""
    lake_bucket: int
    """Bucket of the lake table, which differs if that is not bucketed."""
    bucket_count: int

    @classmethod
    def of(cls, table: PaimonTable, partition: PartitionValues, bucket: int) -> "PaimonBucket":
        """Find the place of a bucket."""
        count = number(table.schema.options, "bucket", default=_UNBUCKETED)
        lake_bucket = bucket if count > 0 else _ONLY_BUCKET
        return cls(table, partition, bucket, lake_bucket, count)

    @property
    def directory(self) -> data_files.BucketDirectory:
        """Directory of the bucket."""
        path = self.table.partitions.file_path(self.partition, self.lake_bucket, _NAME)
        return data_files.BucketDirectory(self.table.files, path)

    def settings(
        self,
        *,
        schema_id: int,
        sequence_start: int = 0,
        level: int = 0,
        source: int = data_files.SOURCE_APPEND,
    ) -> data_files.FileSettings:
        """How files of the bucket are written under a schema."""
        schema = self.table.schema_of(schema_id)
        codec, codec_level = compression(schema.options)
        return data_files.FileSettings(
            layout=FileLayout.of(self.table.spec, schema),
            is_keyed=self.table.spec.is_keyed,
            level=level,
            source=source,
            sequence_start=sequence_start,
            target_bytes=target_bytes(schema.options),
            compression=codec,
            compression_level=codec_level,
        )

    def entries(self, files: Sequence[manifests.DataFile]) -> list[manifests.Entry]:
        """The entries that add files to the table."""
        row = self.table.partitions.to_row(self.partition)
        return [
            manifests.Entry(manifests.ADD, row, self.lake_bucket, self.bucket_count, file)
            for file in files
        ]

    def result(
        self, files: Sequence[manifests.DataFile], leaving: Sequence[manifests.Entry] = ()
    ) -> WriteResult:
        """Describe files for the committer."""
        return WriteResult(
            partition=self.partition,
            bucket=self.bucket,
            row_count=sum(file.row_count for file in files),
            file_count=len(files),
            byte_count=sum(file.byte_count for file in files),
            payload=manifests.entries_to_bytes(
                [*(entry.leaving() for entry in leaving), *self.entries(files)]
            ),
        )


# Writing rows.

# Keyed rows are reduced in memory; beyond this size they become another run.
_BUFFER_BYTES_MAX = 256 * 1024 * 1024


def open_writer(table: PaimonTable, task: WriteTask, clock: Clock) -> LakeWriter:
    """Make the writer for a task."""
    payload = TaskPayload.from_bytes(task.payload)
    place = PaimonBucket.of(table, task.partition, task.bucket)
    settings = place.settings(schema_id=payload.schema_id, sequence_start=payload.sequence_start)
    files = data_files.PaimonDataFiles(place.directory, settings, clock)
    if table.spec.is_keyed:
        return PaimonKeyedWriter(place, files, settings.layout, start=payload.sequence_start)
    return PaimonLogWriter(place, files, settings.layout)


class PaimonLogWriter:
    """Writes one bucket of a log table. Used by one thread, once."""

    def __init__(
        self, place: PaimonBucket, files: data_files.PaimonDataFiles, layout: FileLayout
    ) -> None:
        self._place = place
        self._files = files
        self._layout = layout

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Write rows in log order."""
        assert deleted is None, "only rows by key can be deleted"
        if rows.num_rows:
            self._files.write(pa.Table.from_batches([self._layout.values(rows)]))

    def finish(self) -> WriteResult:
        """Close the files and describe them."""
        return self._place.result(self._files.finish())

    def abort(self) -> None:
        """Remove what was written; never raises."""
        self._files.abort()


class PaimonKeyedWriter:
    """Writes the last row of each key, sorted, with its sequence number. Used once."""

    def __init__(
        self,
        place: PaimonBucket,
        files: data_files.PaimonDataFiles,
        layout: FileLayout,
        *,
        start: int,
    ) -> None:
        self._place = place
        self._files = files
        self._layout = layout
        self._next = start
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Buffer changes in log order, and write them when there are enough."""
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
        """Close the files and describe them."""
        self._flush()
        return self._place.result(self._files.written)

    def abort(self) -> None:
        """Remove what was written; never raises."""
        self._held = []
        self._files.abort()

    def _flush(self) -> None:
        """Write the buffered changes as one sorted run; a file never spans two runs."""
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
    """The last row of each key, in key order."""
    keys = key_columns(rows, layout.keys)
    if any(pa.types.is_floating(key.type) for key in keys):
        # The sort treats both zeros as one key, and leaves their rows mixed.
        last = last_of_each(keys)
        found = rows.select(list(layout.keys)).take(pa.array(last))
        return rows.take(pa.array(last[in_key_order(found.columns)]))
    order = in_key_order(keys)
    return rows.take(pa.array(order[_ends_of_runs(rows.select(list(layout.keys)), order)]))


def _ends_of_runs(keys: pa.Table, order: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell for each position in an order whether the next one has another key."""
    is_end = np.ones(len(order), np.bool_)
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in keys.take(pa.array(order)).combine_chunks().columns:
        values = column.combine_chunks()
        same &= pc.equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    is_end[:-1] = ~same
    return is_end
