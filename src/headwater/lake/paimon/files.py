"""Access files and catalogs behind pypaimon: read, write, list, and create exactly once."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlparse

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs
from pypaimon import CatalogFactory, Schema
from pypaimon.api.rest_exception import RESTException
from pypaimon.catalog.catalog_exception import DatabaseNotExistException, TableNotExistException
from pypaimon.common.identifier import Identifier

from headwater.config.lake import shown_address
from headwater.errors import InvalidOptionError, LakeUnreachableError, UnsupportedError
from headwater.lake.files import decoded
from headwater.lake.options import AllowedPlaces, without_own
from headwater.model import TablePath
from headwater.runtime.clock import random_bytes
from headwater.store.local import sync_all, sync_path

# What database drivers raise, for the databases that pypaimon keeps catalogs in.

_DRIVERS = ("sqlite3", "psycopg2", "psycopg", "pymysql", "mysql.connector")


def database_faults(name: str = "Error") -> tuple[type[Exception], ...]:
    """The errors of all loaded drivers; which ones these are is only known when one is raised."""
    loaded = [sys.modules[driver] for driver in _DRIVERS if driver in sys.modules]
    found = [getattr(module, name, None) for module in loaded]
    return tuple(each for each in found if isinstance(each, type) and issubclass(each, Exception))


# Creating an object only if it does not exist, in object stores that support it.

_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "oss": "ossfs",
}
# Paimon's option names that s3fs spells differently.
_S3_OPTIONS = {
    "key": ("fs.s3.accessKeyId", "s3.access-key", "s3.access.key", "fs.s3a.access.key"),
    "secret": ("fs.s3.accessKeySecret", "s3.secret-key", "s3.secret.key", "fs.s3a.secret.key"),
    "token": ("fs.s3.securityToken", "s3.session-token", "s3.session.token"),
    "endpoint_url": ("fs.s3.endpoint", "s3.endpoint", "fs.s3a.endpoint"),
}
_PROBE = b"probe"  # not empty: s3fs puts an empty file in place whatever is there
_S3_REGION = ("fs.s3.region", "s3.region", "fs.s3a.region")


def create_object(path: str, content: bytes, *, options: Mapping[str, str]) -> bool:
    """Create an object unless it exists; return whether it was created."""
    scheme = urlparse(path).scheme
    storage = tuple(sorted(storage_options(scheme, options).items()))
    directory = path.rpartition("/")[0]
    if not _keeps_first(scheme, directory, storage):
        raise UnsupportedError(
            f"The store behind {scheme}:// overwrites existing objects, so two commits "
            "could overwrite each other.",
            hint=(
                f"Use a newer '{_PACKAGES.get(scheme, scheme)}' and a store with "
                "conditional writes, or a REST catalog."
            ),
        )
    with _package(scheme):
        return _created(path, content, dict(storage))


def storage_options(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Translate the options of a lake for the client of an object store."""
    if _PACKAGES.get(scheme) != "s3fs":
        return {}
    found = {
        name: next((options[key] for key in keys if key in options), "")
        for name, keys in (*_S3_OPTIONS.items(), ("region", _S3_REGION))
    }
    return {name: value for name, value in found.items() if value}


@lru_cache
def _keeps_first(scheme: str, directory: str, storage: tuple[tuple[str, str], ...]) -> bool:
    """Try once whether a second creation of the same object is rejected."""
    probe = f"{directory}/.probe-{random_bytes(8).hex()}"
    with _package(scheme):
        _created(probe, _PROBE, dict(storage))
        try:
            return not _created(probe, _PROBE, dict(storage))
        finally:
            _file_system(probe, dict(storage)).rm(probe)


def _created(path: str, content: bytes, storage: Mapping[str, str]) -> bool:
    try:
        with _file_system(path, storage).open(path, "xb") as stream:
            stream.write(content)
    except FileExistsError:
        return False
    return True


def _file_system(path: str, storage: Mapping[str, str]) -> fsspec.AbstractFileSystem:
    settings: dict[str, object] = dict(storage)
    if (region := settings.pop("region", None)) is not None:
        settings["client_kwargs"] = {"region_name": region}
    return fsspec.filesystem(urlparse(path).scheme, **settings)


@contextmanager
def _package(scheme: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, ValueError, NotImplementedError) as fault:
        package = _PACKAGES.get(scheme, f"fsspec for {scheme}")
        raise UnsupportedError(
            f"Committing to a lake on {scheme}:// needs the package '{package}'"
            f" in a version that can create objects exclusively ({fault}).",
            hint=f"Run: pip install {package}",
        ) from fault


# The files of a lake table: read, written, listed, and created exactly once.

_FAULTS = (OSError, RuntimeError, pa.ArrowException, RESTException)
_HDFS_SCHEMES = ("hdfs", "viewfs")


class FileStatus(Protocol):
    """What a pypaimon file system says about a file."""

    path: str
    size: int | None
    type: pafs.FileType
    mtime: float | None


class FileIO(Protocol):
    """The parts of pypaimon's file systems used here."""

    def new_input_stream(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        ...

    def new_output_stream(self, path: str) -> BinaryIO:
        """Open a file for writing from its start."""
        ...

    def list_status(self, path: str) -> list[FileStatus]:
        """List a directory."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether a file exists."""
        ...

    def delete(self, path: str, recursive: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Remove a file; return whether it existed."""
        ...

    def mkdirs(self, path: str) -> bool:
        """Create a directory."""
        ...

    def rename(self, src: str, dst: str) -> bool:
        """Rename a file; return whether that was done."""
        ...


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in a listing."""

    path: str
    name: str
    byte_count: int
    modified_ms: int
    is_directory: bool


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Translate file system failures into an error that says what to check."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except (*_FAULTS, *database_faults()) as fault:
        said = " ".join(str(fault).split())
        raise LakeUnreachableError(f"Could not reach {what}: {said}.") from fault


@dataclass(frozen=True, slots=True)
class Files:
    """The only access to the files of a lake table."""

    io: FileIO
    options: Mapping[str, str] = field(repr=False)
    places: AllowedPlaces

    @classmethod
    def of(cls, io: FileIO, options: Mapping[str, str], *, location: str = "") -> "Files":
        """Allow files where the options of a lake say so, or below the location of a table."""
        if options.get("metastore", "filesystem") != "rest":
            # A local warehouse is a location however it is written; otherwise it may be a name.
            location = options.get("warehouse", location)
        return cls(io, options, AllowedPlaces.of(options, location=location))

    def check(self, path: str) -> None:
        """Raise for a path that is not allowed."""
        self.places.check(path, what="A file of the Paimon table")

    def read(self, path: str) -> bytes:
        """Read a small file, or raise FileNotFoundError."""
        self.check(path)
        with reaching(path), self.io.new_input_stream(path) as stream:
            return stream.read()

    def read_or_none(self, path: str) -> bytes | None:
        """Read a small file; None if it does not exist."""
        try:
            return self.read(path)
        except FileNotFoundError:
            return None

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position."""
        self.check(path)
        if (local := local_path(path)) is not None:
            return pa.OSFile(local)
        stream = self.io.new_input_stream(path)
        return stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile | BinaryIO]:
        """Open a file for writing from its start; durable when it is closed."""
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
        """Write a small file that nobody looks at yet; `sync_names` makes its name durable."""
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
        """Make the names in a directory durable."""
        with reaching(directory):
            if (local := local_path(directory)) is not None:
                sync_path(local)

    def create(self, path: str, content: bytes) -> bool:
        """Create a small file atomically unless it exists; return whether it was created."""
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
        """Write a small file, replacing an existing one."""
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
        """Remove a file; return whether it existed."""
        self.check(path)
        try:
            with reaching(path):
                return bool(self.io.delete(path))
        except FileNotFoundError:
            return False

    def exists(self, path: str) -> bool:
        """Tell whether a file exists."""
        self.check(path)
        with reaching(path):
            return bool(self.io.exists(path))

    def list(self, path: str) -> list[FoundFile]:
        """List a directory; empty if it does not exist."""
        self.check(path)
        try:
            with reaching(path):
                return [_found(path, each) for each in self.io.list_status(path) or []]
        except FileNotFoundError:
            return []


def local_path(path: str) -> str | None:
    """A local path as the operating system takes it; None for remote places."""
    parsed = urlparse(path)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    return None if parsed.scheme and "://" in path else path


def _create_local(path: Path, content: bytes) -> bool:
    """Create a file by a hard link, which fails if the name is taken."""
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
        # Percent signs in names would be read as escapes in a file URL.
        path=f"{(local_path(directory) or directory).rstrip('/')}/{name}",
        name=name,
        byte_count=status.size or 0,
        modified_ms=_millis(status.mtime),
        is_directory=status.type == pafs.FileType.Directory,
    )


def _millis(modified: object) -> int:
    # pyarrow's file systems return a datetime here, pypaimon's own ones seconds.
    stamp = getattr(modified, "timestamp", None)
    seconds = stamp() if callable(stamp) else modified
    return int(float(seconds) * 1000) if isinstance(seconds, int | float) else 0


# The parts of pypaimon's catalogs and tables used here, and opening them.

_OPEN_ATTEMPTS_MAX = 3


class SnapshotLoader(Protocol):
    """The parts used of a catalog that keeps the newest snapshot itself."""

    def load(self) -> object:
        """The newest snapshot; None if there is none."""
        ...


class CatalogEnvironment(Protocol):
    """The parts used of pypaimon's catalog environment of a table."""

    supports_version_management: bool
    uuid: str | None

    def snapshot_loader(self) -> SnapshotLoader | None:
        """Asks the catalog for the newest snapshot."""
        ...

    def snapshot_commit(self, snapshot_manager: object) -> "SnapshotCommit":
        """Asks the catalog to commit a snapshot."""
        ...


class SnapshotCommit(Protocol):
    """The parts used of a catalog that commits snapshots itself."""

    def commit(
        self, base_snapshot_uuid: str | None, snapshot: object, statistics: list[object]
    ) -> bool:
        """Commit a snapshot after another one; return whether that was done."""
        ...


class SchemaManager(Protocol):
    """The parts used of pypaimon's schema manager."""

    def get_schema(self, schema_id: int) -> object | None:
        """A schema of the table; None if there is none."""
        ...


class Handle(Protocol):
    """The parts used of a pypaimon table."""

    file_io: FileIO
    table_path: str
    table_schema: object
    schema_manager: SchemaManager
    catalog_environment: CatalogEnvironment

    def snapshot_manager(self) -> object:
        """Manager of the table's snapshots."""
        ...


class Catalog(Protocol):
    """The parts used of a pypaimon catalog."""

    def list_databases(self) -> list[str]:
        """Names of the databases."""
        ...

    def list_tables(self, database_name: str) -> list[str]:
        """Names of the tables of a database."""
        ...

    def get_table(self, identifier: Identifier) -> Handle:
        """Open a table."""
        ...

    def create_database(self, name: str, ignore_if_exists: bool) -> None:  # noqa: FBT001
        """Create a database."""
        ...

    def create_table(
        self,
        identifier: Identifier,
        schema: Schema,
        ignore_if_exists: bool,  # noqa: FBT001
    ) -> None:
        """Create a table."""
        ...

    def alter_table(self, identifier: Identifier, changes: list[object]) -> None:
        """Change the schema of a table."""
        ...

    def drop_table(self, identifier: Identifier, ignore_if_not_exists: bool) -> None:  # noqa: FBT001
        """Drop a table and its files."""
        ...


@contextmanager
def opened_catalog(config: Mapping[str, str]) -> Iterator[Catalog]:
    """Open the catalog of a lake, and close its connections afterwards."""
    place = shown_address(config.get("uri") or config.get("warehouse") or "the lake")
    try:
        with reaching(f"the catalog at {place}"):
            catalog = _created_catalog(config)
    except (ValueError, ImportError) as fault:
        raise InvalidOptionError(
            f"The options of the lake do not open a Paimon catalog: {fault}.",
            hint=(
                "Set at least 'warehouse', and for anything but local files 'metastore' and 'uri'."
            ),
        ) from fault
    try:
        yield catalog
    finally:
        if hasattr(catalog, "close"):
            catalog.close()


def _created_catalog(config: Mapping[str, str]) -> Catalog:
    """Open a catalog; if two open a new database at once, both create its tables and one fails."""
    for attempt in range(1, _OPEN_ATTEMPTS_MAX + 1):
        try:
            return CatalogFactory.create(without_own(config))
        except database_faults():  # the first attempt loads the driver
            if attempt == _OPEN_ATTEMPTS_MAX:
                raise
    raise AssertionError


def table_handle(catalog: Catalog, path: TablePath) -> Handle | None:
    """Open a table of a lake; None if there is no such table."""
    with reaching(f"the table {path} in the lake"):
        try:
            with decoded(f"the Paimon table {path}"):
                return catalog.get_table(identifier(path))
        except (TableNotExistException, DatabaseNotExistException):
            return None


def identifier(path: TablePath) -> Identifier:
    """The name of a table as pypaimon takes it."""
    return Identifier.create(path.database, path.table)
