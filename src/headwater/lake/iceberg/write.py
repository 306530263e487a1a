"""Write the rows of one bucket into data files, and deletes for older rows of the same keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from headwater.errors import InvalidValueError, LakeRewrittenError, LakeTableDiffersError
from headwater.lake.iceberg import data_files, read
from headwater.lake.iceberg.catalog import reached
from headwater.lake.iceberg.files import (
    PATH_FIELD_ID,
    BucketTask,
    HeldFile,
    IcebergPlace,
    file_from_json,
    file_to_json,
    packed,
    scoped_path,
    task_of,
    unpacked,
)
from headwater.lake.iceberg.types import FIELD_ID, fitted, parquet_schema
from headwater.lake.keys import KeySet, last_of_each
from headwater.lake.spi import LakeTableSpec, PartitionValues, WriteResult, WriteTask
from headwater.model.type_json import Json, list_of
from headwater.rows.buckets import BucketFunction, buckets_of
from headwater.rows.keys import IcebergKeys

# What a writer hands to the committer.


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Files to add, and files that these depend on or replace."""

    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    """Files that the added ones replace."""
    needed: tuple[str, ...] = ()
    """Data files that added deletes apply to."""
    deletes: tuple[str, ...] = ()
    """The deletes that applied to the removed data files when these were read."""
    on: int | None = None
    """The snapshot that was searched for older rows of changed keys."""
    seen: tuple[str, ...] = ()
    """The data files that were searched."""

    def to_result(self, *, partition: PartitionValues, bucket: int, rows: int) -> WriteResult:
        """Encode it as a result."""
        payload: dict[str, Json] = {
            "added": [file_to_json(file) for file in self.added],
            "removed": list(self.removed),
            "needed": list(self.needed),
            "deletes": list(self.deletes),
            "on": self.on,
            "seen": list(self.seen),
        }
        return WriteResult(
            partition=partition,
            bucket=bucket,
            row_count=rows,
            file_count=len(self.added),
            byte_count=data_files.byte_count(self.added),
            payload=packed(payload),
        )


def written_of(result: WriteResult) -> WrittenFiles:
    """Decode a result."""
    node = unpacked(result.payload)
    on = node.get("on")
    return WrittenFiles(
        added=tuple(file_from_json(each) for each in list_of(node, "added")),
        removed=tuple(str(each) for each in list_of(node, "removed")),
        needed=tuple(str(each) for each in list_of(node, "needed")),
        deletes=tuple(str(each) for each in list_of(node, "deletes")),
        on=on if isinstance(on, int) else None,
        seen=tuple(str(each) for each in list_of(node, "seen")),
    )


# Whether rows are in the bucket where Iceberg looks for them.

_ROWS_CHECKED = 1000


def check_bucket(spec: LakeTableSpec, rows: pa.RecordBatch, *, bucket: int) -> None:
    """Check that a sample of a bucket's rows belongs there by Iceberg's function.

    Otherwise lookups by key would miss rows: Iceberg's readers skip files by bucket number.
    """
    if not spec.bucket_keys or spec.bucket_count == 1:
        return
    types = [spec.schema.column(name).type for name in spec.bucket_keys]
    columns = [rows.column(name).slice(0, _ROWS_CHECKED) for name in spec.bucket_keys]
    try:
        keys = IcebergKeys.of(types).encode(columns)
    except InvalidValueError:
        return
    found = buckets_of(keys, spec.bucket_count, function=BucketFunction.ICEBERG)
    if (found != bucket).any():
        raise LakeTableDiffersError(
            f"Rows of bucket {bucket} of {spec.path} are not distributed by Iceberg's "
            "bucket function.",
            hint=(
                "Create the table again with `table.datalake.format` set to iceberg from "
                "the beginning, so that clients use its bucket function."
            ),
        )


# How a table's rows appear in data files of its Iceberg table.


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """Matches the columns of a table with the fields of data files."""

    schema: pa.Schema
    """Schema of data files: every field of the Iceberg table, with its id."""
    sources: tuple[int | None, ...]
    """Position of each field among the table's columns; None if it has no column."""

    @classmethod
    def of(cls, place: IcebergPlace, spec: LakeTableSpec) -> "FileColumns":
        """Match columns by their ids."""
        positions: dict[int, int] = {}
        for at, column in enumerate(spec.schema.columns):
            if column.column_id not in place.ids.fields:
                raise LakeRewrittenError(
                    f"The Iceberg table of {spec.path} no longer has the column '{column.name}'."
                )
            positions[place.ids.fields[column.column_id]] = at
        fields = place.schema.fields
        return cls(
            schema=parquet_schema(fields),
            sources=tuple(positions.get(field.field_id) for field in fields),
        )

    def fitted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows to the columns of data files."""
        columns = [
            pa.nulls(rows.num_rows, field.type)
            if source is None
            else _checked(rows.column(source), field)
            for field, source in zip(self.schema, self.sources, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _checked(values: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return fitted(values, field.type)
    except pa.ArrowInvalid as fault:
        raise InvalidValueError(
            f"The column '{field.name}' contains a value that Iceberg cannot hold: {fault}"
        ) from fault


# Finding older rows of changed keys, in files of the lake and in those just written.

_Raw = int | bytes
_NONE = np.empty(0, np.int64)


@dataclass(slots=True)
class OlderRows:
    """Collects the positions that changed keys remove from files."""

    io: FileIO
    keys: pa.Schema
    """The key columns as in data files, with their field ids."""
    files: list[HeldFile]
    taken: dict[str, read.Positions] = field(default_factory=dict)
    """Newly removed positions per file path, ascending."""
    _gone: dict[str, read.Positions] = field(default_factory=dict)

    def take_away(self, changed: Sequence[pa.ChunkedArray]) -> None:
        """Find the rows that have changed keys."""
        if not len(changed[0]):
            return
        keys = KeySet.of(changed)
        ranges = [_range(column) for column in changed]
        for held in self.files:
            if self._may_hold(held.file, ranges):
                self._take_from(held, keys)

    def _may_hold(self, file: DataFile, ranges: Sequence[tuple[_Raw, _Raw] | None]) -> bool:
        """Tell whether a file's bounds allow it to contain a changed key."""
        for column, changed in zip(self.keys, ranges, strict=True):
            field_id = int(column.metadata[FIELD_ID])
            lower = _raw_bound((file.lower_bounds or {}).get(field_id), column.type)
            upper = _raw_bound((file.upper_bounds or {}).get(field_id), column.type)
            if changed is None or lower is None or upper is None:
                continue
            if _is_below(changed[1], lower) or _is_below(upper, changed[0]):
                return False
        return True

    def _take_from(self, held: HeldFile, keys: KeySet) -> None:
        found: list[read.Positions] = []
        start = 0
        fields = [int(column.metadata[FIELD_ID]) for column in self.keys]
        for rows in read.read_columns(self.io, held.file, schema=self.keys, fields=fields):
            found.append(np.flatnonzero(keys.mask(rows.columns)) + start)
            start += rows.num_rows
        positions = np.concatenate(found) if found else _NONE
        if not len(positions):
            return
        path = held.file.file_path
        if path not in self._gone:
            self._gone[path] = read.deleted_positions(self.io, held)
        new = read.without(positions, self._gone[path])
        if len(new):
            self.taken[path] = read.merged(self.taken.get(path, _NONE), new)
            self._gone[path] = read.merged(self._gone[path], new)


def _range(changed: pa.ChunkedArray) -> tuple[_Raw, _Raw] | None:
    """The lowest and highest value; None for types whose order is not worth it."""
    if pa.types.is_floating(changed.type):
        return None
    found = pc.min_max(changed)
    return _raw(found["min"]), _raw(found["max"])


def _raw(value: pa.Scalar) -> _Raw:
    """Convert a value so that it compares like file bounds."""
    kind = value.type
    if pa.types.is_decimal(kind):
        sign, digits, _ = value.as_py().as_tuple()
        unscaled = int("".join(map(str, digits)))
        return -unscaled if sign else unscaled
    if pa.types.is_string(kind):
        return str(value.as_py()).encode()
    if pa.types.is_date(kind):
        return int(value.cast(pa.int32()).as_py())
    if pa.types.is_temporal(kind):
        return int(value.cast(pa.int64()).as_py())
    raw: _Raw = value.as_py()
    return raw


def _is_below(value: _Raw, other: _Raw) -> bool:
    if isinstance(value, bytes):
        assert isinstance(other, bytes)
        return value < other
    assert not isinstance(other, bytes)
    return value < other


def _raw_bound(bound: bytes | None, kind: pa.DataType) -> _Raw | None:
    if bound is None or pa.types.is_floating(kind):
        return None
    if pa.types.is_decimal(kind):
        return int.from_bytes(bound, "big", signed=True)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return bound
    return int.from_bytes(bound, "little", signed=not pa.types.is_boolean(kind))


# Deleted positions of data files, written as delete files.

_POSITION_FIELD_ID = 2147483545
DELETES_SCHEMA = Schema(
    NestedField(PATH_FIELD_ID, "file_path", StringType(), required=True),
    NestedField(_POSITION_FIELD_ID, "pos", LongType(), required=True),
)


@dataclass(slots=True)
class Deletes:
    """Writes delete files, each for one data file. Used by one thread, once.

    A data file has at most one: a later one includes the positions of the earlier one and replaces
    it. So reading does not get slower with the number of rounds.
    """

    io: FileIO
    names: data_files.FileNames
    added: list[DataFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    _begun: list[data_files.ParquetFiles] = field(default_factory=list)

    def write(self, held: HeldFile, taken: read.Positions) -> None:
        """Delete positions of a data file, in addition to those that were deleted already."""
        path = held.file.file_path
        earlier = [each for each in held.deletes if scoped_path(each) == path]
        gone = read.deleted_positions(self.io, HeldFile(held.file, tuple(earlier)))
        positions = read.merged(read.without(taken, gone), gone)
        files = data_files.ParquetFiles(
            io=self.io,
            schema=parquet_schema(DELETES_SCHEMA.fields),
            settings=data_files.ParquetSettings.of(self.names.place.properties),
            new_location=self.names.deletes,
        )
        self._begun.append(files)
        files.write(_rows(path, positions, files.schema))
        files.end_file()
        for file in files.written:
            found = data_files.described(
                file,
                self.names.place,
                record=held.file.partition,
                content=DataFileContent.POSITION_DELETES,
                schema=DELETES_SCHEMA,
            )
            found.spec_id = held.file.spec_id
            self.added.append(found)
        self.removed += [each.file_path for each in earlier]
        self.needed.append(path)

    def abort(self) -> None:
        """Remove all files."""
        for files in self._begun:
            files.abort()


def _rows(path: str, positions: read.Positions, schema: pa.Schema) -> pa.RecordBatch:
    paths = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int8), pa.array([path]))
    columns = [paths.cast(pa.string()), pa.array(positions)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


# Writing a log table.


@dataclass(slots=True)
class IcebergLogWriter:
    """Writes one bucket of a log table. Used by one thread, once."""

    spec: LakeTableSpec
    task: WriteTask
    columns: FileColumns
    files: data_files.IcebergDataFiles
    rows: int = 0

    @classmethod
    def of(
        cls, spec: LakeTableSpec, task: WriteTask, *, config: Mapping[str, str]
    ) -> "IcebergLogWriter":
        """Begin to write a bucket."""
        place = task_of(task).place
        columns = FileColumns.of(place, spec)
        names = data_files.FileNames(place=place, partition=task.partition, bucket=task.bucket)
        io = place.io(config)
        return cls(
            spec,
            task,
            columns,
            data_files.IcebergDataFiles.of(place, names, io=io, schema=columns.schema),
        )

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Write rows in log order."""
        assert deleted is None or not deleted.true_count, "a log table deletes nothing"
        if not self.rows:
            check_bucket(self.spec, rows, bucket=self.task.bucket)
        with reached("Writing to the lake"):
            self.files.write(self.columns.fitted(rows))
        self.rows += rows.num_rows

    def finish(self) -> WriteResult:
        """Close the files and describe them."""
        with reached("Writing to the lake"):
            written = WrittenFiles(added=tuple(self.files.finish()))
        return written.to_result(
            partition=self.task.partition, bucket=self.task.bucket, rows=self.rows
        )

    def abort(self) -> None:
        """Remove what was written; never raises."""
        self.files.abort()


# Writing a table with a primary key.

_HELD_BYTES_MAX = 256 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class IcebergKeyedWriter:
    """Writes changes of keys in one bucket. Used by one thread, once.

    Changes are buffered up to a size, reduced to the last one of each key, and written. Rows that
    they replace are not touched: their positions are recorded as deleted.
    """

    spec: LakeTableSpec
    task: WriteTask
    bucket: BucketTask
    columns: FileColumns
    files: data_files.IcebergDataFiles
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
    ) -> "IcebergKeyedWriter":
        """Begin to write a bucket."""
        bucket = task_of(task)
        place = bucket.place
        io = place.io(config)
        columns = FileColumns.of(place, spec)
        names = data_files.FileNames(place=place, partition=task.partition, bucket=task.bucket)
        return cls(
            spec=spec,
            task=task,
            bucket=bucket,
            columns=columns,
            files=data_files.IcebergDataFiles.of(place, names, io=io, schema=columns.schema),
            older=OlderRows(io, key_fields(columns, place, spec), list(bucket.held)),
            deletes=Deletes(io, names),
        )

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Buffer changes in log order, and write them when there are enough."""
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
                # Later changes may replace these rows, so they must be found again.
                self.older.files = [*self.older.files, *self._own_files()]

    def finish(self) -> WriteResult:
        """Close the files and describe them."""
        with reached("Writing to the lake"):
            self._flush()
            data = self.files.finish()
            for held in self.older.files:
                taken = self.older.taken.get(held.file.file_path)
                if taken is not None:
                    self.deletes.write(held, taken)
        written = WrittenFiles(
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
        """Reduce the buffered changes, record which older rows they replace, and write the rest."""
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


def key_fields(columns: FileColumns, place: IcebergPlace, spec: LakeTableSpec) -> pa.Schema:
    """The columns that identify rows within one bucket, as in data files."""
    by_id = {field.field_id: at for at, field in enumerate(place.schema.fields)}
    # All rows of a partition share the rest of the key.
    names = spec.row_keys or spec.schema.primary_key
    ids = [place.ids.fields[spec.schema.column(name).column_id] for name in names]
    return pa.schema([columns.schema.field(by_id[field_id]) for field_id in ids])
