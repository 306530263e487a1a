"""Write the data files of one bucket: Parquet files of a target size, and their metadata."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import types as ice
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.utils.truncate import (
    truncate_upper_bound_binary_string,
    truncate_upper_bound_text_string,
)

from headwater.errors import InvalidOptionError
from headwater.lake.iceberg.files import IcebergPlace, PartitionField, new_id, remove, settle
from headwater.lake.spi import PartitionValues

# Parquet files of a target size, one after the other.

_KIB = 1024
_MIB = _KIB * _KIB
_FILE_BYTES = 128 * _MIB
_GROUP_BYTES = 64 * _MIB
_GROUP_ROWS = _MIB
_PAGE_BYTES = _MIB
# Columns with many distinct values try a dictionary until it is full: at the usual 2 MiB they take
# twice as long to write as at this size, which still holds tens of thousands of short texts.
_DICTIONARY_BYTES = _MIB // 2
# Level 3 takes a third more time and rarely saves enough bytes.
_ZSTD_LEVEL = 1
_CODECS = {"uncompressed": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSettings:
    """How files are written, as far as the table's properties decide."""

    file_bytes: int
    """Size at which a file is closed and the next one started."""
    group_bytes: int
    """Size in memory at which a row group ends."""
    group_rows: int
    page_bytes: int
    dictionary_bytes: int
    codec: str
    level: int | None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "ParquetSettings":
        """Read the properties of a table."""
        codec = properties.get("write.parquet.compression-codec", "zstd").lower()
        level = properties.get("write.parquet.compression-level")
        return cls(
            file_bytes=number(properties, "write.target-file-size-bytes", _FILE_BYTES),
            group_bytes=number(properties, "write.parquet.row-group-size-bytes", _GROUP_BYTES),
            group_rows=number(properties, "write.parquet.row-group-limit", _GROUP_ROWS),
            page_bytes=number(properties, "write.parquet.page-size-bytes", _PAGE_BYTES),
            dictionary_bytes=number(properties, "write.parquet.dict-size-bytes", _DICTIONARY_BYTES),
            codec=_CODECS.get(codec, codec),
            level=int(level) if level else _ZSTD_LEVEL if codec == "zstd" else None,
        )


def number(properties: Mapping[str, str], name: str, default: int) -> int:
    """Parse a numeric property."""
    text = properties.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise InvalidOptionError(
            f"The property '{name}' of the Iceberg table is '{text}', which is not a whole number."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFile:
    """A file that was written."""

    location: str
    byte_count: int
    footer: pq.FileMetaData


class _Stream(Protocol):
    """The parts of `pyarrow.NativeFile` used here, as pyiceberg types it."""

    def tell(self) -> int: ...

    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class ParquetFiles:
    """Writes rows of one schema into files of a target size. Used by one thread, once."""

    io: FileIO
    schema: pa.Schema
    settings: ParquetSettings
    new_location: Callable[[], str]
    written: list[ParquetFile] = field(default_factory=list)
    _begun: list[str] = field(default_factory=list)
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _held_rows: int = 0
    _held_bytes: int = 0
    _stream: _Stream | None = None
    _writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows of the schema, closing full files."""
        if not rows.num_rows:
            return
        self._held.append(rows)
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes
        if (
            self._held_bytes >= self.settings.group_bytes
            or self._held_rows >= self.settings.group_rows
        ):
            self._end_group()

    def end_file(self) -> None:
        """Close the current file, so that the next row starts another one."""
        self._end_group()
        if self._writer is None or self._stream is None:
            return
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        location = self._begun[-1]
        settle([location])
        footer = self._writer.writer.metadata
        self.written.append(ParquetFile(location=location, byte_count=size, footer=footer))
        self._writer = self._stream = None

    def abort(self) -> None:
        """Remove all files."""
        self._held.clear()
        if self._stream is not None:
            self._stream.close()
        self._writer = self._stream = None
        remove(self.io, self._begun)

    def _end_group(self) -> None:
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held, self.schema)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        for start in range(0, rows.num_rows, self.settings.group_rows):
            writer = self._writer or self._begin_file()
            writer.write_table(rows.slice(start, self.settings.group_rows))
            assert self._stream is not None
            if self._stream.tell() >= self.settings.file_bytes:
                self.end_file()

    def _begin_file(self) -> pq.ParquetWriter:
        self._begun.append(self.new_location())
        stream = self.io.new_output(self._begun[-1]).create(overwrite=True)
        self._stream = stream
        self._writer = pq.ParquetWriter(
            stream,
            self.schema,
            compression=self.settings.codec,
            compression_level=self.settings.level,
            data_page_size=self.settings.page_bytes,
            dictionary_pagesize_limit=self.settings.dictionary_bytes,
            store_decimal_as_integer=True,
            store_schema=False,
            # Without checksums nine of ten flipped bits are read as other values.
            write_page_checksum=True,
        )
        return self._writer


# Statistics of a Parquet file, taken from its footer.

Raw = bool | int | float | bytes
_INTS = (ice.IntegerType, ice.DateType)
_LONGS = (ice.LongType, ice.TimeType, ice.TimestampType, ice.TimestamptzType)


@dataclass(slots=True)
class FileStatistics:
    """Value counts and ranges of a file, by field id."""

    record_count: int
    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)
    split_offsets: list[int] = field(default_factory=list)


def file_statistics(
    footer: pq.FileMetaData, schema: Schema, properties: Mapping[str, str]
) -> FileStatistics:
    """Collect the statistics that the table's properties ask for.

    Bounds are taken as the file stores them, since Python's date range is smaller than Iceberg's.
    """
    plan = compute_statistics_plan(schema, dict(properties))
    ids = parquet_path_to_id_mapping(schema)
    found = FileStatistics(footer.num_rows)
    for position in range(footer.num_columns):
        collector = plan[ids[footer.schema.column(position).path]]
        _add_column(found, footer, position, collector)
    for group in range(footer.num_row_groups):
        found.split_offsets.append(_start_of(footer.row_group(group)))
    found.split_offsets.sort()
    return found


def _start_of(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    first = column.data_page_offset
    return min(first, column.dictionary_page_offset) if column.has_dictionary_page else first


def _add_column(
    found: FileStatistics, footer: pq.FileMetaData, position: int, collector: StatisticsCollector
) -> None:
    chunks = [footer.row_group(at).column(position) for at in range(footer.num_row_groups)]
    field_id, mode = collector.field_id, collector.mode
    found.column_sizes[field_id] = sum(chunk.total_compressed_size for chunk in chunks)
    if mode.type is MetricModeTypes.NONE:
        return
    found.value_counts[field_id] = sum(chunk.num_values for chunk in chunks)
    if not all(chunk.is_stats_set for chunk in chunks):
        return
    statistics = [chunk.statistics for chunk in chunks]
    if all(each.has_null_count for each in statistics):
        found.null_value_counts[field_id] = sum(each.null_count for each in statistics)
    if mode.type is MetricModeTypes.COUNTS:
        return
    # A group without bounds holds only nulls; for floats, only NaN, which is in no bounds.
    ranged = [each for each in statistics if each.has_min_max]
    if ranged:
        kind, length = collector.iceberg_type, mode.length
        order = _order_of(kind)
        lowest = min((each.min_raw for each in ranged), key=order)
        highest = max((each.max_raw for each in ranged), key=order)
        found.lower_bounds[field_id] = _lower(lowest, kind, length)
        if (upper := _upper(highest, kind, length)) is not None:
            found.upper_bounds[field_id] = upper


def _order_of(kind: ice.PrimitiveType) -> Callable[[Raw], Raw]:
    return _unscaled if isinstance(kind, ice.DecimalType) else lambda value: value


def _unscaled(value: Raw) -> int:
    """Unscaled value of a decimal, which a file stores as a number or as bytes."""
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else int(value)


def _lower(value: Raw, kind: ice.PrimitiveType, length: int | None) -> bytes:
    if isinstance(value, bytes) and length is not None:
        if isinstance(kind, ice.StringType):
            return value.decode()[:length].encode()
        if isinstance(kind, ice.BinaryType):
            return value[:length]
    return bound_bytes(value, kind)


def _upper(value: Raw, kind: ice.PrimitiveType, length: int | None) -> bytes | None:
    """A bound not below the value; None if no shortened one exists."""
    if isinstance(value, bytes) and length is not None:
        if isinstance(kind, ice.StringType):
            text = truncate_upper_bound_text_string(value.decode(), length)
            return None if text is None else text.encode()
        if isinstance(kind, ice.BinaryType):
            return truncate_upper_bound_binary_string(value, length)
    return bound_bytes(value, kind)


def bound_bytes(value: Raw, kind: ice.PrimitiveType) -> bytes:
    """Encode a value in Iceberg's single-value form."""
    if isinstance(kind, ice.DecimalType):
        digits = _unscaled(value)
        size = (digits if digits >= 0 else ~digits).bit_length() // 8 + 1
        return digits.to_bytes(size, "big", signed=True)
    if isinstance(value, bytes):
        return value
    if isinstance(kind, ice.BooleanType):
        return b"\x01" if value else b"\x00"
    if isinstance(kind, _INTS):
        return struct.pack("<i", value)
    if isinstance(kind, _LONGS):
        return struct.pack("<q", value)
    return struct.pack("<f" if isinstance(kind, ice.FloatType) else "<d", value)


# From rows to data files with their metadata.


@dataclass(slots=True)
class IcebergDataFiles:
    """Writes data files of one bucket, up to a size each. Used by one thread, once."""

    place: IcebergPlace
    names: "FileNames"
    files: ParquetFiles
    record: Record | None = None
    """The partition values that all rows of the bucket share, known from the first row on."""

    @classmethod
    def of(
        cls, place: IcebergPlace, names: "FileNames", *, io: FileIO, schema: pa.Schema
    ) -> "IcebergDataFiles":
        """Begin to write; there is no file before the first row."""
        settings = ParquetSettings.of(place.properties)
        files = ParquetFiles(io=io, schema=schema, settings=settings, new_location=names.data)
        return cls(place, names, files)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows in the columns of data files."""
        if self.record is None and rows.num_rows:
            self.record = partition_record(self.place, rows, bucket=self.names.bucket)
        self.files.write(rows)

    def finish(self) -> list[DataFile]:
        """Close the current file, and describe all of them."""
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
    """Names the files of one bucket, differently in every attempt to write it."""

    place: IcebergPlace
    partition: PartitionValues
    bucket: int
    _attempt: str = field(default_factory=new_id)
    _numbers: "count[int]" = field(default_factory=count)

    def data(self) -> str:
        """Location of the next data file; its name includes the schema it is written under."""
        return self._named(f"s{self.place.schema.schema_id}-{next(self._numbers):05d}.parquet")

    def deletes(self) -> str:
        """Location of the next delete file."""
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


def partition_record(place: IcebergPlace, rows: pa.RecordBatch, *, bucket: int) -> Record:
    """The partition values that rows of one bucket share, in the order of the partition spec."""
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
    """The first value as metadata stores it: days and microseconds as whole numbers."""
    first = values.slice(0, 1)
    if pa.types.is_date(first.type):
        first = first.cast(pa.int32())
    elif pa.types.is_temporal(first.type):
        first = first.cast(pa.int64())
    found: PartitionField = first[0].as_py()
    return found


def described(
    file: ParquetFile,
    place: IcebergPlace,
    *,
    record: Record,
    content: DataFileContent,
    schema: Schema | None = None,
) -> DataFile:
    """The metadata entry of a file."""
    # Bounds of deletes are file paths, which must not be shortened.
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
    """Total size of files."""
    return sum(file.file_size_in_bytes for file in files)
