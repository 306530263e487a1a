"""Rows written into Parquet files of a size, one file after the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from headwater.errors import InvalidOptionError
from headwater.lake.iceberg.places import remove, settle

_KIB = 1024
_MIB = _KIB * _KIB
_FILE_BYTES = 128 * _MIB
_GROUP_BYTES = 64 * _MIB
_GROUP_ROWS = _MIB
_PAGE_BYTES = _MIB
# Columns of many values try a dictionary until it is full: at 2 MiB, which is usual, they take
# twice as long to write as at this size, which still holds tens of thousands of short texts.
_DICTIONARY_BYTES = _MIB // 2
# Level 3 takes a third more time, and rarely saves bytes that are worth it.
_ZSTD_LEVEL = 1
_CODECS = {"uncompressed": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSettings:
    """Say how files are written, as far as properties of the table decide."""

    file_bytes: int
    """The size at which a file is closed and the next one begun."""
    group_bytes: int
    """The size in memory at which a row group ends."""
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
    """Return a property that is a number."""
    text = properties.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise InvalidOptionError(
            f"The property '{name}' of the Iceberg table is '{text}', which is no whole number."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFile:
    """Tell what was written."""

    location: str
    byte_count: int
    footer: pq.FileMetaData


class _Stream(Protocol):
    """What a `pyarrow.NativeFile` does for us, as pyiceberg types it."""

    def tell(self) -> int: ...

    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class ParquetFiles:
    """Write rows of one schema into files that grow to a size. Used by one thread, once."""

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
        """Take rows of the schema."""
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
        """Close the file that is open, so that the next row begins another one."""
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
            # Without them nine of ten flipped bits are read as other values.
            write_page_checksum=True,
        )
        return self._writer
