"""Files of a lake by their locations: made durable, listed and removed."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import UUID

from pyarrow import fs
from pyiceberg.io import FileIO
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from headwater.lake.iceberg.guard import GuardedIO
from headwater.runtime.events import Events
from headwater.runtime.ids import random_bytes
from headwater.store.durable import sync_path

_events = Events("lake.iceberg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Tell what a listing says of a file."""

    location: str
    byte_count: int
    modified_ms: int


def new_id() -> str:
    """Return a name that no other file has."""
    return str(UUID(bytes=random_bytes(16), version=4))


def local_path(location: str) -> str | None:
    """Return the path of a location on this machine; None if it is elsewhere."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return parts.path
    return None if parts.scheme else location


def settle(locations: Iterable[str]) -> None:
    """Wait until files are on disk, with the directories that name them.

    Object stores and file systems over the network answer when a file is safe.
    """
    paths = [path for path in map(local_path, locations) if path is not None]
    for path in [*paths, *sorted({os.path.dirname(path) for path in paths})]:  # noqa: PTH120
        sync_path(path)


def remove(io: FileIO, locations: Iterable[str]) -> int:
    """Remove files, and return how many there were; one that cannot be removed is left."""
    removed = 0
    for location in locations:
        try:
            io.delete(location)
            removed += 1
        except FileNotFoundError:
            continue
        except OSError as fault:
            _events.warning("left a file", location=location, fault=str(fault))
    return removed


def listed(io: FileIO, location: str) -> Iterator[Listed]:
    """Yield every file below a location."""
    prefix, system, path = _opened(io, location)
    with suppress(FileNotFoundError):
        for info in system.get_file_info(fs.FileSelector(path, recursive=True)):
            if info.is_file:
                yield Listed(
                    location=f"{prefix}{info.path}",
                    byte_count=info.size,
                    modified_ms=(info.mtime_ns or 0) // 1_000_000,
                )


def remove_all(io: FileIO, location: str) -> None:
    """Remove everything below a location."""
    _, system, path = _opened(io, location)
    with suppress(FileNotFoundError):
        system.delete_dir(path)


def _opened(io: FileIO, location: str) -> tuple[str, fs.FileSystem, str]:
    """Return what stands before paths in locations, the file system, and the path in it."""
    if isinstance(io, GuardedIO):
        io.check(location)
        return _opened(io.inner, location)
    if isinstance(io, FsspecFileIO):
        scheme, _, path = location.partition("://")
        return f"{scheme}://", fs.PyFileSystem(fs.FSSpecHandler(io.get_fs(scheme))), path
    assert isinstance(io, PyArrowFileIO), io
    scheme, netloc, path = PyArrowFileIO.parse_location(location, io.properties)
    return location.removesuffix(path), io.fs_by_scheme(scheme, netloc), path
