"""Where the files of one bucket lie, and what a writer of it returns."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import CorruptFileError
from headwater.lake.paimon.data_files import SOURCE_APPEND, Directory, FileSettings
from headwater.lake.paimon.layout import FileLayout
from headwater.lake.paimon.manifests import ADD, DataFile, Entry, entries_to_bytes
from headwater.lake.paimon.options import compression, number, target_bytes
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.spi import PartitionValues, WriteResult
from headwater.model.type_json import int_of, object_of

_UNBUCKETED = -1
_ONLY_BUCKET = 0
_NAME = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPayload:
    """Tell a writer what it cannot know itself."""

    schema_id: int
    sequence_start: int
    """The number of its first row, behind all that the bucket holds."""

    def to_bytes(self) -> bytes:
        """Write the payload of a task."""
        return json.dumps({"schema": self.schema_id, "sequence": self.sequence_start}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "TaskPayload":
        """Read the payload of a task."""
        try:
            node = object_of(json.loads(data), what="task")
        except ValueError as fault:
            raise CorruptFileError(f"A task of a lake writer cannot be read: {fault}.") from fault
        return cls(schema_id=int_of(node, "schema"), sequence_start=int_of(node, "sequence"))


@dataclass(frozen=True, slots=True)
class Place:
    """Be one bucket of a lake table."""

    table: PaimonTable
    partition: PartitionValues
    bucket: int
    """The bucket of the table."""
    lake_bucket: int
    """The bucket of the lake table: another one where that is not bucketed."""
    bucket_count: int

    @classmethod
    def of(cls, table: PaimonTable, partition: PartitionValues, bucket: int) -> "Place":
        """Find the place of a bucket."""
        count = number(table.schema.options, "bucket", default=_UNBUCKETED)
        lake_bucket = bucket if count > 0 else _ONLY_BUCKET
        return cls(table, partition, bucket, lake_bucket, count)

    @property
    def directory(self) -> Directory:
        """Return the directory of the bucket."""
        path = self.table.partitions.file_path(self.partition, self.lake_bucket, _NAME)
        return Directory(self.table.files, path)

    def settings(
        self,
        *,
        schema_id: int,
        sequence_start: int = 0,
        level: int = 0,
        source: int = SOURCE_APPEND,
    ) -> FileSettings:
        """Return how files of the bucket are written under a schema."""
        schema = self.table.schema_of(schema_id)
        codec, codec_level = compression(schema.options)
        return FileSettings(
            layout=FileLayout.of(self.table.spec, schema),
            is_keyed=self.table.spec.is_keyed,
            level=level,
            source=source,
            sequence_start=sequence_start,
            target_bytes=target_bytes(schema.options),
            compression=codec,
            compression_level=codec_level,
        )

    def entries(self, files: Sequence[DataFile]) -> list[Entry]:
        """Return the entries by which files join the table."""
        row = self.table.partitions.to_row(self.partition)
        return [Entry(ADD, row, self.lake_bucket, self.bucket_count, file) for file in files]

    def result(self, files: Sequence[DataFile], leaving: Sequence[Entry] = ()) -> WriteResult:
        """Return what a committer needs to know of files."""
        return WriteResult(
            partition=self.partition,
            bucket=self.bucket,
            row_count=sum(file.row_count for file in files),
            file_count=len(files),
            byte_count=sum(file.byte_count for file in files),
            payload=entries_to_bytes(
                [*(entry.leaving() for entry in leaving), *self.entries(files)]
            ),
        )
