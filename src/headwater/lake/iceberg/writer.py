"""Rows of one bucket of a log table, written into data files."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.lake.iceberg.columns import FileColumns
from headwater.lake.iceberg.data_files import DataFiles, FileNames
from headwater.lake.iceberg.opening import reached
from headwater.lake.iceberg.results import Written
from headwater.lake.iceberg.spread import check_bucket
from headwater.lake.iceberg.tasks import task_of
from headwater.lake.spi import WriteResult, WriteTask
from headwater.lake.table import LakeTableSpec


@dataclass(slots=True)
class LogWriter:
    """Write what a log table was given. Used by one thread, once."""

    spec: LakeTableSpec
    task: WriteTask
    columns: FileColumns
    files: DataFiles
    rows: int = 0

    @classmethod
    def of(cls, spec: LakeTableSpec, task: WriteTask, *, config: Mapping[str, str]) -> "LogWriter":
        """Begin to write a bucket."""
        place = task_of(task).place
        columns = FileColumns.of(place, spec)
        names = FileNames(place=place, partition=task.partition, bucket=task.bucket)
        io = place.io(config)
        return cls(spec, task, columns, DataFiles.of(place, names, io=io, schema=columns.schema))

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Take rows in the order of the log."""
        assert deleted is None or not deleted.true_count, "a log table deletes nothing"
        if not self.rows:
            check_bucket(self.spec, rows, bucket=self.task.bucket)
        with reached("Writing to the lake"):
            self.files.write(self.columns.fitted(rows))
        self.rows += rows.num_rows

    def finish(self) -> WriteResult:
        """Close the files and say what they are."""
        with reached("Writing to the lake"):
            written = Written(added=tuple(self.files.finish()))
        return written.to_result(
            partition=self.task.partition, bucket=self.task.bucket, rows=self.rows
        )

    def abort(self) -> None:
        """Remove what was written; never raises."""
        self.files.abort()
