"""Write the data files of one bucket: Parquet files of a target size, and their metadata."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import HeadwaterError, UnsupportedError
from headwater.lake.paimon.files import Files, reaching
from headwater.lake.paimon.layout import DELETED, KIND, SEQUENCE, FileLayout
from headwater.lake.paimon.manifests import DataFile, Entry, Record, Value
from headwater.lake.paimon.types import (
    EMPTY_ROW,
    file_type,
    from_binary_row,
    has_nanoseconds,
    is_bytes,
    to_binary_row,
)
from headwater.lake.spi import LakeTableSpec, PartitionValues
from headwater.model import DataType
from headwater.model.arrow import arrow_type
from headwater.model.partition_values import PartitionValue, partition_texts, partition_value
from headwater.model.predicate import Literal
from headwater.model.types import TimestampLtzType, TimestampType
from headwater.rows.aligned_row import NANOS_PER_MILLI, holds
from headwater.runtime.clock import Clock, random_bytes

# Column bounds of data files, as values that filters compare with.

_NANOS = {"s": 1_000_000_000, "ms": NANOS_PER_MILLI, "us": 1_000, "ns": 1}
_INT_BITS = 32
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
# Longer text would fill manifests; a file without a bound is just never skipped.
_TEXT_LENGTH_MAX = 128


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of one column of a file; None: unknown, or all are null."""

    minimum: Literal
    maximum: Literal
    null_count: int


NOTHING = Bounds(None, None, 0)


def bounds_of(column: pa.Array | pa.ChunkedArray) -> Bounds:
    """Compute the bounds of values."""
    nulls = int(column.null_count)
    if nulls == len(column) or not (holds(column.type) or is_bytes(column.type)):
        return Bounds(None, None, nulls)
    if pa.types.is_floating(column.type):
        return _float_bounds(column, nulls)
    found = pc.min_max(_whole_numbers(column))
    low, high = (literal_of(found[name], column.type) for name in ("min", "max"))
    if _is_long(low) or _is_long(high):
        return Bounds(None, None, nulls)
    return Bounds(low, high, nulls)


def literals_of(column: pa.Array) -> list[Literal]:
    """Convert values as filters write them: dates and times as whole numbers."""
    return [literal_of(each, column.type) for each in _whole_numbers(column)]


def literal_of(value: pa.Scalar, data_type: pa.DataType) -> Literal:
    """Convert one value that went through `_whole_numbers` as filters write it."""
    found: Literal = value.as_py()
    if not isinstance(found, int) or not pa.types.is_temporal(data_type):
        return found
    if pa.types.is_date(data_type):
        return found
    nanos = found * _NANOS[data_type.unit]
    if pa.types.is_time(data_type):
        return nanos // NANOS_PER_MILLI
    return nanos if _LONG_MIN <= nanos // NANOS_PER_MILLI <= _LONG_MAX else None


def merged(parts: Iterable[Bounds]) -> Bounds:
    """Bounds that hold for all parts of a column."""
    low: Literal = None
    high: Literal = None
    nulls, is_first = 0, True
    for part in parts:
        nulls += part.null_count
        low = part.minimum if is_first else _lower(low, part.minimum)
        high = part.maximum if is_first else _higher(high, part.maximum)
        is_first = False
    return Bounds(low, high, nulls)


def to_record(types: Sequence[pa.DataType], bounds: Sequence[Bounds]) -> dict[str, Value]:
    """Encode bounds for the record of a data file."""
    return {
        "_MIN_VALUES": to_binary_row(types, [each.minimum for each in bounds]),
        "_MAX_VALUES": to_binary_row(types, [each.maximum for each in bounds]),
        "_NULL_COUNTS": [each.null_count for each in bounds],
    }


def _whole_numbers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    # Python's datetime ends at microseconds and at the year 9999.
    if not pa.types.is_temporal(column.type):
        return column
    whole = pa.int32() if column.type.bit_width == _INT_BITS else pa.int64()
    return column.cast(whole) if isinstance(column, pa.ChunkedArray) else column.view(whole)


def _float_bounds(column: pa.Array | pa.ChunkedArray, nulls: int) -> Bounds:
    values = column.drop_null().to_numpy()
    # Readers order NaN and the two zeros differently: never skip such files.
    if np.isnan(values).any():
        return Bounds(None, None, nulls)
    low, high = float(values.min()), float(values.max())
    return Bounds(-0.0 if low == 0 else low, 0.0 if high == 0 else high, nulls)


def _is_long(value: Literal) -> bool:
    return isinstance(value, str | bytes) and len(value) > _TEXT_LENGTH_MAX


def _lower(left: Literal, right: Literal) -> Literal:
    if left is None or right is None:
        return None
    return min(left, right)


def _higher(left: Literal, right: Literal) -> Literal:
    if left is None or right is None:
        return None
    return max(left, right)


# Partitions of a lake table: as text, as rows of manifests, and as directories.

_MICROS_PRECISION_MAX = 6

FilePath = Callable[[tuple[PartitionValue, ...], int, str], str]


@dataclass(frozen=True, slots=True)
class PaimonPartitions:
    """Converts the partitions of one table."""

    keys: tuple[str, ...]
    types: tuple[DataType, ...]
    path_of: FilePath

    @classmethod
    def of(cls, spec: LakeTableSpec, path_of: FilePath) -> "PaimonPartitions":
        """Collect the partition keys of a table."""
        types = tuple(spec.schema.column(key).type for key in spec.partition_keys)
        return cls(spec.partition_keys, types, path_of)

    def to_row(self, partition: PartitionValues) -> bytes:
        """Encode a partition as in manifests."""
        return to_binary_row(self._file_types, self._literals(partition))

    def from_row(self, row: bytes) -> PartitionValues:
        """Decode the partition of a manifest entry."""
        literals = from_binary_row(self._file_types, row)
        return tuple(
            (key, _text(literal, data_type))
            for key, literal, data_type in zip(self.keys, literals, self.types, strict=True)
        )

    def file_path(self, partition: PartitionValues, bucket: int, name: str) -> str:
        """Path of a file of a bucket, with directories named as by Paimon's own writers."""
        return self.path_of(self._values(partition), bucket, name)

    def bounds(self, entries: Sequence[Entry]) -> Record:
        """Bounds of the partition columns, as manifest lists hold them."""
        rows = [from_binary_row(self._file_types, each.partition) for each in entries]
        columns = [
            merged(Bounds(row[at], row[at], 0) for row in rows) for at in range(len(self.keys))
        ]
        return {**to_record(self._file_types, columns)}

    def literals(self, row: bytes) -> tuple[Literal, ...]:
        """The values of a partition as filters write them."""
        return from_binary_row(self._file_types, row)

    @property
    def _file_types(self) -> list[pa.DataType]:
        return [file_type(each) for each in self.types]

    def _values(self, partition: PartitionValues) -> tuple[PartitionValue, ...]:
        texts = dict(partition)
        return tuple(
            partition_value(texts[key], data_type)
            for key, data_type in zip(self.keys, self.types, strict=True)
        )

    def _literals(self, partition: PartitionValues) -> list[Literal]:
        return [
            literals_of(pa.array([value], arrow_type(data_type)).cast(file_type(data_type)))[0]
            for value, data_type in zip(self._values(partition), self.types, strict=True)
        ]


def check_partition_types(spec: LakeTableSpec) -> None:
    """Raise for a partition key that Paimon cannot use as a directory name."""
    for key in spec.partition_keys:
        match spec.schema.column(key).type:
            case TimestampType(precision=precision) | TimestampLtzType(precision=precision):
                if precision > _MICROS_PRECISION_MAX:
                    raise UnsupportedError(
                        f"The partition key '{key}' of {spec.path} has a finer precision "
                        "than microseconds.",
                        hint="Partition by a DATE or a STRING, or by a TIMESTAMP(6).",
                    )
            case _:
                continue


def _text(literal: Literal, data_type: DataType) -> str:
    """A partition value as in partition names."""
    whole = file_type(data_type)
    value = literal
    if isinstance(literal, int) and pa.types.is_timestamp(whole):
        value = literal // {"ms": 1_000_000, "us": 1_000, "ns": 1}[whole.unit]
    plain = pa.array([value], _storage_type(whole))
    array = plain.view(whole) if pa.types.is_temporal(whole) else plain.cast(whole)
    return partition_texts(array.cast(arrow_type(data_type)), data_type)[0]


def _storage_type(data_type: pa.DataType) -> pa.DataType:
    if not pa.types.is_temporal(data_type):
        return data_type
    return pa.int32() if data_type.bit_width == 32 else pa.int64()  # noqa: PLR2004


# Parquet files of a target size, one after the other.

# Smaller groups cost more, since each begins its dictionaries again.
_ROW_GROUP_BYTES = 128 * 1024 * 1024
_ROW_GROUP_ROWS = 2 * 1024 * 1024
# The kinds of rows that carry an old value or a delete.
_DELETING = (1, DELETED)
# Columns with many distinct values try a dictionary until it is full: at 1 MiB they take half as
# long again to write as at this size, which still holds tens of thousands of short texts.
_DICTIONARY_BYTES = 512 * 1024
SOURCE_APPEND, SOURCE_COMPACT = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """How data files are written."""

    layout: FileLayout
    is_keyed: bool
    level: int = 0
    source: int = SOURCE_APPEND
    sequence_start: int = 0
    """Number of the first row, if rows do not carry theirs."""
    target_bytes: int = 128 * 1024 * 1024
    compression: str = "zstd"
    compression_level: int | None = 1


@dataclass(frozen=True, slots=True)
class BucketDirectory:
    """Names the files of a bucket."""

    files: Files
    pattern: str
    """A path with `{}` in place of the file name."""

    def path(self, name: str) -> str:
        """Path of a file."""
        head, _, tail = self.pattern.rpartition("{}")
        return f"{head}{name}{tail}"

    def delete(self, names: Sequence[str]) -> None:
        """Remove files, as far as possible."""
        for name in names:
            try:
                self.files.delete(self.path(name))
            except HeadwaterError:
                continue


@dataclass(slots=True)
class _OpenFile:
    """A file that is being written, with what its record will say."""

    name: str
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    stack: ExitStack
    bounds: list[list[Bounds]] = field(default_factory=list)
    row_count: int = 0
    delete_count: int = 0
    first_key: tuple[pa.ChunkedArray, ...] = ()
    last_key: tuple[pa.ChunkedArray, ...] = ()
    sequence_min: int | None = None
    sequence_max: int = -1


class PaimonDataFiles:
    """Writes rows, already in file order, into files of a target size. Used by one thread, once."""

    def __init__(self, directory: BucketDirectory, settings: FileSettings, clock: Clock) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._open: _OpenFile | None = None
        self._names: list[str] = []
        self._row_count = 0
        self._group_bytes = min(_ROW_GROUP_BYTES, settings.target_bytes)
        self.written: list[DataFile] = []

    def write(self, rows: pa.Table) -> None:
        """Write rows with the fields of the files, closing full files."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._group_bytes:
            self._write_held()

    def finish(self) -> list[DataFile]:
        """Close the current file, and describe all of them."""
        self._write_held()
        self._close()
        return self.written

    def abort(self) -> None:
        """Remove what was written."""
        if self._open is not None:
            self._open.stack.close()
            self._open = None
        self._held = []
        self._directory.delete(self._names)

    def _write_held(self) -> None:
        if not self._held:
            return
        rows = pa.concat_tables(self._held)
        self._held, self._held_bytes = [], 0
        step = _rows_per_group(rows, self._group_bytes)
        for start in range(0, rows.num_rows, step):
            self._write_group(rows.slice(start, step))

    def _write_group(self, rows: pa.Table) -> None:
        if self._open is None:
            self._open = self._opened(rows.schema)
        file = self._open
        with reaching(file.name):
            file.writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
        _note(file, rows, self._settings, position=self._row_count)
        self._row_count += rows.num_rows
        if file.sink.tell() >= self._settings.target_bytes:
            self._close()

    def _opened(self, schema: pa.Schema) -> _OpenFile:
        name = f"data-{random_bytes(16).hex()}-{len(self._names)}.parquet"
        self._names.append(name)
        with ExitStack() as stack:
            sink = stack.enter_context(
                self._directory.files.open_output(self._directory.path(name))
            )
            writer = stack.enter_context(
                pq.ParquetWriter(
                    sink,
                    schema,
                    compression=self._settings.compression,
                    compression_level=self._settings.compression_level,
                    dictionary_pagesize_limit=_DICTIONARY_BYTES,
                    # Paimon stores nanoseconds like this; pyarrow then writes all timestamps so.
                    use_deprecated_int96_timestamps=any(
                        has_nanoseconds(each.type) for each in schema
                    ),
                    store_decimal_as_integer=True,
                    store_schema=False,
                    # Without checksums nine of ten flipped bits are read as other values.
                    write_page_checksum=True,
                )
            )
            return _OpenFile(name, sink, writer, stack.pop_all())
        raise AssertionError

    def _close(self) -> None:
        file, self._open = self._open, None
        if file is None:
            return
        with reaching(file.name), file.stack:
            file.writer.close()
            byte_count = file.sink.tell()
        self.written.append(DataFile(_record(file, byte_count, self._settings, self._clock)))


def _rows_per_group(rows: pa.Table, group_bytes: int) -> int:
    """Rows per group, so that groups have about equal sizes and none is a small rest."""
    groups = max(1, round(rows.nbytes / group_bytes), math.ceil(rows.num_rows / _ROW_GROUP_ROWS))
    return max(1, math.ceil(rows.num_rows / groups))


def _note(file: _OpenFile, rows: pa.Table, settings: FileSettings, *, position: int) -> None:
    """Collect what the record of the file says about these rows."""
    file.row_count += rows.num_rows
    file.bounds.append([bounds_of(rows.column(name)) for name in settings.layout.fields.names])
    low = settings.sequence_start + position
    high = low + rows.num_rows - 1
    if settings.is_keyed:
        sequences = pc.min_max(rows.column(SEQUENCE))
        low, high = int(sequences["min"].as_py()), int(sequences["max"].as_py())
        file.delete_count += int(pc.sum(pc.equal(rows.column(KIND), DELETED)).as_py() or 0)
        ends = [rows.column(key) for key in settings.layout.keys]
        file.first_key = file.first_key or tuple(column.slice(0, 1) for column in ends)
        file.last_key = tuple(column.slice(len(column) - 1) for column in ends)
    file.sequence_min = low if file.sequence_min is None else min(low, file.sequence_min)
    file.sequence_max = max(high, file.sequence_max)


def _record(
    file: _OpenFile, byte_count: int, settings: FileSettings, clock: Clock
) -> dict[str, Value]:
    layout = settings.layout
    bounds = [merged(parts) for parts in zip(*file.bounds, strict=True)]
    by_name = dict(zip(layout.fields.names, bounds, strict=True))
    keys = layout.keys if settings.is_keyed else ()
    return {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": byte_count,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": _key_row(file.first_key, layout) if keys else EMPTY_ROW,
        "_MAX_KEY": _key_row(file.last_key, layout) if keys else EMPTY_ROW,
        "_KEY_STATS": _bounds_record(layout, keys, by_name),
        "_VALUE_STATS": _bounds_record(layout, layout.fields.names, by_name),
        "_MIN_SEQUENCE_NUMBER": file.sequence_min or 0,
        "_MAX_SEQUENCE_NUMBER": file.sequence_max,
        "_SCHEMA_ID": layout.schema_id,
        "_LEVEL": settings.level,
        "_EXTRA_FILES": [],
        "_CREATION_TIME": _local_ms(clock.now_ms()),
        "_DELETE_ROW_COUNT": file.delete_count,
        "_EMBEDDED_FILE_INDEX": None,
        "_FILE_SOURCE": settings.source,
        "_VALUE_STATS_COLS": None,
        "_EXTERNAL_PATH": None,
        "_FIRST_ROW_ID": None,
        "_WRITE_COLS": None,
        "_WRITE_COLS_SEQUENCES": None,
    }


def deleting_rows(file: pa.NativeFile) -> int:
    """Count the deleting rows of a keyed data file, whoever wrote it."""
    opened = pq.ParquetFile(file)
    if KIND not in opened.schema_arrow.names:
        return 0
    kinds = (batch.column(0) for batch in opened.iter_batches(columns=[KIND]))
    deleting = pa.array(_DELETING, pa.int8())
    return sum(pc.sum(pc.is_in(each, value_set=deleting)).as_py() or 0 for each in kinds)


def _key_row(values: Sequence[pa.ChunkedArray], layout: FileLayout) -> bytes:
    literals = [literals_of(value.combine_chunks())[0] for value in values]
    return to_binary_row(layout.key_types, literals)


def _bounds_record(layout: FileLayout, names: Sequence[str], bounds: dict[str, Bounds]) -> Record:
    types = [layout.fields.field(name).type for name in names]
    return {**to_record(types, [bounds[name] for name in names])}


def _local_ms(now_ms: int) -> int:
    """A moment in local time, which is what Paimon records for files."""
    offset = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().utcoffset()
    return now_ms + (int(offset.total_seconds() * 1000) if offset is not None else 0)
