"""Where rows come from: files and standard input, their formats and their bytes."""

import io
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from headwater.errors import RequestError

STDIN = Path("-")
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}


class Format(StrEnum):
    """Name the formats that rows are read from."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


SUFFIXES = {
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".ipc": Format.ARROW,
    ".feather": Format.ARROW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Name a file, its format and its compression."""

    path: Path
    format: Format
    compression: str | None = None

    @property
    def name(self) -> str:
        """Return the name for messages."""
        return "standard input" if self.path == STDIN else str(self.path)

    @property
    def size_bytes(self) -> int | None:
        """Return the size of the file, where it has one."""
        return self.path.stat().st_size if self.path != STDIN and self.path.is_file() else None


def source_of(path: Path, *, given: Format | None) -> Source:
    """Return the source that a path names; its suffixes tell the format that was not given."""
    suffix = path.suffix.lower()
    compression = COMPRESSIONS.get(suffix)
    if compression is not None:
        suffix = path.with_suffix("").suffix.lower()
    known = Format.JSON if path == STDIN else SUFFIXES.get(suffix)
    if (chosen := given or known) is None:
        raise RequestError(
            f"The format of {path} cannot be told by its name.",
            hint=f"Give one of {', '.join(Format)} with --format.",
        )
    if chosen is Format.PARQUET and (path == STDIN or compression is not None):
        raise RequestError(
            "Parquet is read from plain files only.", hint="Save it to a file first."
        )
    return Source(path=path, format=chosen, compression=compression)


class ByteStream(io.RawIOBase):
    """Read the bytes of a source as they come, and count them."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        is_stdin = source.path == STDIN
        self._raw = sys.stdin.buffer if is_stdin else source.path.open("rb")
        self.done_bytes = 0

    def readable(self) -> bool:
        """Tell that bytes can be read."""
        return True

    def read(self, count: int = -1) -> bytes:
        """Return what is there, up to so many bytes; a pipe is not waited for to fill them."""
        piece = bytes(self._raw.read() if count < 0 else _read_some(self._raw, count))
        self.done_bytes += len(piece)
        return piece

    def close(self) -> None:
        """Close the file; standard input is not ours."""
        if self._raw is not sys.stdin.buffer:
            self._raw.close()
        super().close()


def decompressed(stream: ByteStream, source: Source) -> ByteStream | pa.NativeFile:
    """Return a stream of the bytes inside a compressed one."""
    if source.compression is None:
        return stream
    return pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), source.compression)


def _read_some(raw: BinaryIO, count: int) -> bytes:
    return raw.read1(count) if isinstance(raw, io.BufferedReader) else raw.read(count)
