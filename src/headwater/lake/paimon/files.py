"""The files of a lake table: how they are read, written, listed, and created only once."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.fs as pafs
from pypaimon.api.rest_exception import RESTException

from headwater.errors import LakeUnreachableError
from headwater.lake.allowed import Places
from headwater.lake.paimon.databases import database_faults
from headwater.lake.paimon.exclusive import create_object
from headwater.runtime.ids import random_bytes
from headwater.store.durable import sync_all, sync_path

_FAULTS = (OSError, RuntimeError, pa.ArrowException, RESTException)
_HDFS_SCHEMES = ("hdfs", "viewfs")


class FileStatus(Protocol):
    """What a file system of pypaimon tells of a file."""

    path: str
    size: int | None
    type: pafs.FileType
    mtime: float | None


class FileIO(Protocol):
    """What is used of the file systems of pypaimon."""

    def new_input_stream(self, path: str) -> BinaryIO:
        """Open a file to be read."""
        ...

    def new_output_stream(self, path: str) -> BinaryIO:
        """Open a file to be written from its start."""
        ...

    def list_status(self, path: str) -> list[FileStatus]:
        """Return what lies in a directory."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether there is such a file."""
        ...

    def delete(self, path: str, recursive: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Remove a file; tell whether it was there."""
        ...

    def mkdirs(self, path: str) -> bool:
        """Make a directory."""
        ...

    def rename(self, src: str, dst: str) -> bool:
        """Give a file another name; tell whether that was done."""
        ...


@dataclass(frozen=True, slots=True)
class FoundFile:
    """Tell what a listing shows of a file."""

    path: str
    name: str
    byte_count: int
    modified_ms: int
    is_directory: bool


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Turn failures of the file system into an error that says what to check."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except (*_FAULTS, *database_faults()) as fault:
        said = " ".join(str(fault).split())
        raise LakeUnreachableError(f"Could not reach {what}: {said}.") from fault


@dataclass(frozen=True, slots=True)
class Files:
    """Be the only door to the files of a lake table."""

    io: FileIO
    options: Mapping[str, str] = field(repr=False)
    places: Places

    @classmethod
    def of(cls, io: FileIO, options: Mapping[str, str], *, location: str = "") -> "Files":
        """Use files where the options of a lake allow it, or below the location of a table."""
        if options.get("metastore", "filesystem") != "rest":
            # There it is a location however it is written; for others it may be a name.
            location = options.get("warehouse", location)
        return cls(io, options, Places.of(options, location=location))

    def check(self, path: str) -> None:
        """Refuse a path that lies at a place which is not allowed."""
        self.places.check(path, what="A file of the Paimon table")

    def read(self, path: str) -> bytes:
        """Return the content of a small file, or raise FileNotFoundError."""
        self.check(path)
        with reaching(path), self.io.new_input_stream(path) as stream:
            return stream.read()

    def read_or_none(self, path: str) -> bytes | None:
        """Return the content of a small file, None if it is not there."""
        try:
            return self.read(path)
        except FileNotFoundError:
            return None

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file to be read at any position."""
        self.check(path)
        if (local := local_path(path)) is not None:
            return pa.OSFile(local)
        stream = self.io.new_input_stream(path)
        return stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile | BinaryIO]:
        """Open a file to be written from its start; durable when it is closed."""
        self.check(path)
        local = local_path(path)
        with reaching(path):
            if local is None:
                with self.io.new_output_stream(path) as stream:
                    yield stream
                return
            Path(local).parent.mkdir(parents=True, exist_ok=True)
            with pa.OSFile(local, "wb") as file:
                yield file
            sync_path(local)
            sync_path(Path(local).parent)

    def write(self, path: str, content: bytes) -> None:
        """Write a small file that nobody looks at yet; its name is durable by `sync_names`."""
        self.check(path)
        local = local_path(path)
        with reaching(path):
            if local is None:
                with self.io.new_output_stream(path) as stream:
                    stream.write(content)
                return
            Path(local).parent.mkdir(parents=True, exist_ok=True)
            Path(local).write_bytes(content)
            sync_path(local)

    def sync_names(self, directory: str) -> None:
        """Make the names in a directory survive a crash of the machine."""
        with reaching(directory):
            if (local := local_path(directory)) is not None:
                sync_path(local)

    def create(self, path: str, content: bytes) -> bool:
        """Put a small file in place, whole, unless there is one; tell whether it was put."""
        self.check(path)
        with reaching(path):
            scheme = urlparse(path).scheme
            if (local := local_path(path)) is not None:
                return _create_local(Path(local), content)
            if scheme in _HDFS_SCHEMES:
                return self._create_by_rename(path, content)
            return create_object(path, content, options=self.options)

    def _create_by_rename(self, path: str, content: bytes) -> bool:
        temporary = _temporary(path)
        with self.io.new_output_stream(temporary) as stream:
            stream.write(content)
        done = False
        try:
            done = self.io.rename(temporary, path)
        finally:
            if not done:
                self.delete(temporary)
        return done

    def replace(self, path: str, content: bytes) -> None:
        """Put a small file in place of another, if any."""
        self.check(path)
        with reaching(path):
            if (local := local_path(path)) is None:
                with self.io.new_output_stream(path) as stream:
                    stream.write(content)
                return
            temporary = Path(_temporary(local))
            temporary.write_bytes(content)
            temporary.replace(local)

    def delete(self, path: str) -> bool:
        """Remove a file; tell whether it was there."""
        self.check(path)
        try:
            with reaching(path):
                return bool(self.io.delete(path))
        except FileNotFoundError:
            return False

    def exists(self, path: str) -> bool:
        """Tell whether there is such a file."""
        self.check(path)
        with reaching(path):
            return bool(self.io.exists(path))

    def list(self, path: str) -> list[FoundFile]:
        """Return what lies directly in a directory, nothing if it is not there."""
        self.check(path)
        try:
            with reaching(path):
                return [_found(path, each) for each in self.io.list_status(path) or []]
        except FileNotFoundError:
            return []


def local_path(path: str) -> str | None:
    """Return a path of this machine as the operating system takes it; None for other places."""
    parsed = urlparse(path)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    return None if parsed.scheme and "://" in path else path


def _create_local(path: Path, content: bytes) -> bool:
    """Create a file by a hard link, which fails if the name is taken, whoever took it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(_temporary(str(path)))
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            sync_all(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_path(path.parent)
    return True


def _temporary(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{random_bytes(8).hex()}.tmp"


def _found(directory: str, status: FileStatus) -> FoundFile:
    name = status.path.rstrip("/").rpartition("/")[2]
    return FoundFile(
        # Names with percent signs would be read as escapes in the address of a local file.
        path=f"{(local_path(directory) or directory).rstrip('/')}/{name}",
        name=name,
        byte_count=status.size or 0,
        modified_ms=_millis(status.mtime),
        is_directory=status.type == pafs.FileType.Directory,
    )


def _millis(modified: object) -> int:
    # pyarrow's file systems tell a datetime here, pypaimon's own ones seconds.
    stamp = getattr(modified, "timestamp", None)
    seconds = stamp() if callable(stamp) else modified
    return int(float(seconds) * 1000) if isinstance(seconds, int | float) else 0
