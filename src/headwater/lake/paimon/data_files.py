"""Writing rows into Parquet files of a bucket, each of a limited size."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import HeadwaterError
from headwater.lake.paimon.binary_row import EMPTY_ROW, to_binary_row
from headwater.lake.paimon.bounds import Bounds, bounds_of, literals_of, merged, to_record
from headwater.lake.paimon.files import Files, reaching
from headwater.lake.paimon.layout import DELETED, KIND, SEQUENCE, FileLayout
from headwater.lake.paimon.manifests import DataFile, Record, Value
from headwater.lake.paimon.types import has_nanoseconds
from headwater.runtime.clock import Clock
from headwater.runtime.ids import random_bytes

# Smaller groups cost more, since each begins its dictionaries anew.
_ROW_GROUP_BYTES = 128 * 1024 * 1024
_ROW_GROUP_ROWS = 2 * 1024 * 1024
# What a change had before it, and what is gone.
_DELETING = (1, DELETED)
# Columns of many values try a dictionary until it is full: with 1 MiB they take half as long
# again to write as at this size, which still holds tens of thousands of short texts.
_DICTIONARY_BYTES = 512 * 1024
SOURCE_APPEND, SOURCE_COMPACT = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Say how data files are written."""

    layout: FileLayout
    is_keyed: bool
    level: int = 0
    source: int = SOURCE_APPEND
    sequence_start: int = 0
    """The number of the first row where rows do not carry theirs."""
    target_bytes: int = 128 * 1024 * 1024
    compression: str = "zstd"
    compression_level: int | None = 1


@dataclass(frozen=True, slots=True)
class Directory:
    """Name the files of a bucket."""

    files: Files
    pattern: str
    """A path with `{}` in the place of the name."""

    def path(self, name: str) -> str:
        """Return the path of a file."""
        head, _, tail = self.pattern.rpartition("{}")
        return f"{head}{name}{tail}"

    def delete(self, names: Sequence[str]) -> None:
        """Remove files, as far as that is possible."""
        for name in names:
            try:
                self.files.delete(self.path(name))
            except HeadwaterError:
                continue


@dataclass(slots=True)
class _OpenFile:
    """Be a file that is being written, with what its record will tell."""

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


class DataFiles:
    """Write rows, already in the order of the files, into as many files as it takes."""

    def __init__(self, directory: Directory, settings: FileSettings, clock: Clock) -> None:
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
        """Take rows with the fields of the files."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._group_bytes:
            self._write_held()

    def finish(self) -> list[DataFile]:
        """Close the last file; return all of them."""
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
                    # How Paimon keeps nanoseconds; pyarrow then writes all moments like that.
                    use_deprecated_int96_timestamps=any(
                        has_nanoseconds(each.type) for each in schema
                    ),
                    store_decimal_as_integer=True,
                    store_schema=False,
                    # Without them nine of ten flipped bits are read as other values.
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
    """Return how many rows make groups of like sizes, none of them a small rest."""
    groups = max(1, round(rows.nbytes / group_bytes), math.ceil(rows.num_rows / _ROW_GROUP_ROWS))
    return max(1, math.ceil(rows.num_rows / groups))


def _note(file: _OpenFile, rows: pa.Table, settings: FileSettings, *, position: int) -> None:
    """Keep in mind what the record of the file tells of these rows."""
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
    """Return how many rows of a data file of a table by key delete, whoever wrote it."""
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
    """Return a moment as the local clock shows it, which is what Paimon notes for files."""
    offset = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().utcoffset()
    return now_ms + (int(offset.total_seconds() * 1000) if offset is not None else 0)
