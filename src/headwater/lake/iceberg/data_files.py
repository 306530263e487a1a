"""Data files of one bucket, from rows to what the metadata says of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from headwater.lake.iceberg.parquet import ParquetFile, ParquetFiles, ParquetSettings
from headwater.lake.iceberg.places import new_id
from headwater.lake.iceberg.statistics import file_statistics
from headwater.lake.iceberg.values import PartitionField, Place
from headwater.lake.spi import PartitionValues


@dataclass(slots=True)
class DataFiles:
    """Write data files of one bucket, each no larger than asked. Used by one thread, once."""

    place: Place
    names: "FileNames"
    files: ParquetFiles
    record: Record | None = None
    """The values that all rows of the bucket share, known from the first row on."""

    @classmethod
    def of(cls, place: Place, names: "FileNames", *, io: FileIO, schema: pa.Schema) -> "DataFiles":
        """Begin to write; there is no file before the first row."""
        settings = ParquetSettings.of(place.properties)
        files = ParquetFiles(io=io, schema=schema, settings=settings, new_location=names.data)
        return cls(place, names, files)

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows as they stand in data files."""
        if self.record is None and rows.num_rows:
            self.record = partition_record(self.place, rows, bucket=self.names.bucket)
        self.files.write(rows)

    def finish(self) -> list[DataFile]:
        """Close the file that is open, and return all of them."""
        self.files.end_file()
        return [
            described(
                file, self.place, record=self.record or Record(), content=DataFileContent.DATA
            )
            for file in self.files.written
        ]

    def abort(self) -> None:
        """Remove all files."""
        self.files.abort()


@dataclass(slots=True, kw_only=True)
class FileNames:
    """Name the files of one bucket, differently at every attempt to write it."""

    place: Place
    partition: PartitionValues
    bucket: int
    _attempt: str = field(default_factory=new_id)
    _numbers: "count[int]" = field(default_factory=count)

    def data(self) -> str:
        """Return the place of the next data file, which says the schema it is written under."""
        return self._named(f"s{self.place.schema.schema_id}-{next(self._numbers):05d}.parquet")

    def deletes(self) -> str:
        """Return the place of the next file of deletes."""
        return self._named(f"{next(self._numbers):05d}-deletes.parquet")

    def _named(self, ending: str) -> str:
        folders = [f"{key}={value}/" for key, value in self.partition]
        folders += [
            f"{part.name}={self.bucket}/"
            for part in self.place.spec.fields
            if not isinstance(part.transform, IdentityTransform)
        ]
        provider = load_location_provider(self.place.location, self.place.naming)
        return provider.new_data_location(f"{''.join(folders)}{self._attempt}-{ending}")


def partition_record(place: Place, rows: pa.RecordBatch, *, bucket: int) -> Record:
    """Return what rows of one bucket share, in the order of the partition spec."""
    at = {field.field_id: position for position, field in enumerate(place.schema.fields)}
    return Record(
        *(
            _plain(rows.column(at[part.source_id]))
            if isinstance(part.transform, IdentityTransform)
            else bucket
            for part in place.spec.fields
        )
    )


def _plain(values: pa.Array) -> PartitionField:
    """Return the first value as metadata keeps it: days and microseconds as whole numbers."""
    first = values.slice(0, 1)
    if pa.types.is_date(first.type):
        first = first.cast(pa.int32())
    elif pa.types.is_temporal(first.type):
        first = first.cast(pa.int64())
    found: PartitionField = first[0].as_py()
    return found


def described(
    file: ParquetFile,
    place: Place,
    *,
    record: Record,
    content: DataFileContent,
    schema: Schema | None = None,
) -> DataFile:
    """Return what the metadata says of a file."""
    # Bounds of deletes name files, which have to stand there in full.
    properties = place.properties if schema is None else {"write.metadata.metrics.default": "full"}
    statistics = file_statistics(file.footer, schema or place.schema, properties)
    found = DataFile.from_args(
        content=content,
        file_path=file.location,
        file_format=FileFormat.PARQUET,
        partition=record,
        record_count=statistics.record_count,
        file_size_in_bytes=file.byte_count,
        column_sizes=statistics.column_sizes,
        value_counts=statistics.value_counts,
        null_value_counts=statistics.null_value_counts,
        nan_value_counts=None,
        lower_bounds=statistics.lower_bounds,
        upper_bounds=statistics.upper_bounds,
        key_metadata=None,
        split_offsets=statistics.split_offsets,
        equality_ids=None,
        sort_order_id=None,
    )
    found.spec_id = place.spec.spec_id
    return found


def byte_count(files: Sequence[DataFile]) -> int:
    """Return the size of files together."""
    return sum(file.file_size_in_bytes for file in files)
