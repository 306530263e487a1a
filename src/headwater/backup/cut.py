"""One moment of a data directory, kept by hard links while its server keeps running.

A plain copy of a running storage mixes many moments: the catalog may be older than the logs, and
the lake newer. The steps below keep everything the copy needs from changing or disappearing:

1. Link everything ahead of time, so that little is left to do under the lock.
2. Take the catalog's write lock and copy the catalog. Tables, schemas, partitions, writers and lake
   reports cannot change; appends, upserts and reads continue.
3. Link what is new in the lake, then in the logs. So no log ends before the lake's data does, and
   none starts after the offset that the catalog records for the lake.
4. Release the lock; the links are copied afterwards.

Files never change once named, except that the last segment of a log grows: its length is recorded,
and only that much belongs to the cut. Maintenance (compaction, retention, snapshots) may still
replace files of a bucket, so a bucket is linked again until its files are the same before and
after. The cut contains what a crash at that moment would have left.

Known limit: the lake is included only if it lies below the data directory.
"""

import errno
import fcntl
import math
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import ConflictError, MissingError, StorageError
from headwater.runtime.clock import Clock, SystemClock, random_bytes

CATALOG = "catalog.sqlite"
LAKE_CATALOG = "lake/iceberg/catalog.sqlite"
STAGE_PREFIX = ".backup-"
LOCK_WAIT_S = 10.0
ATTEMPTS_MAX = 50
HOLD_S_MAX = 3.0  # a server waits 5 s for its catalog before it rejects a change
HOLDS_MAX = 5
_SKIPPED = ("LOCK", LAKE_CATALOG, CATALOG, "log/dropped")
_LAKES = ("lake/iceberg", "lake/paimon")
_BUCKETS = ("log/[0-9]*/[0-9]*", "log/[0-9]*/p[0-9]*/[0-9]*")
_TEMPORARY = (".tmp", ".draft", "-wal", "-shm", "-journal")
_CHECKPOINT = "/checkpoint"
_LINKS_FULL = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
_POINTERS = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"

Names = dict[str, int]
"""Files below a directory with their inodes; a replaced file has a new inode."""


class _HeldTooLongError(Exception):
    """The catalog lock must be released before the server starts to reject changes."""


@dataclass(frozen=True, slots=True)
class CutFile:
    """A file of a cut, and how many of its bytes belong to it."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class BackupCut:
    """The files of one moment, hard-linked below the folder `stage`."""

    stage: Path
    files: tuple[CutFile, ...]
    has_lake: bool


@contextmanager
def cut_of(directory: Path, *, with_lake: bool, clock: Clock | None = None) -> Iterator[BackupCut]:
    """Keep one moment of a directory, which may be in use, for the duration of a block."""
    if not (directory / CATALOG).is_file():
        raise MissingError(
            f"{directory} is not a data directory: it has no {CATALOG}.",
            hint="Pass the directory that headwater serve was started with.",
        )
    with _stage(directory) as stage:
        links = _Links(directory, stage, with_lake=with_lake, clock=clock or SystemClock())
        files = links.all()
        yield BackupCut(stage, files, has_lake=with_lake and (stage / "lake").is_dir())


@contextmanager
def _stage(directory: Path) -> Iterator[Path]:
    """Make a folder for links next to the files, and remove what a killed backup left behind."""
    for left in directory.glob(f"{STAGE_PREFIX}*"):
        with _flock(left) as is_free:
            if is_free:
                shutil.rmtree(left, ignore_errors=True)
    stage = directory / f"{STAGE_PREFIX}{random_bytes(6).hex()}"
    stage.mkdir(mode=0o700)
    try:
        with _flock(stage):
            yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def _flock(directory: Path) -> Iterator[bool]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextmanager
def _held(catalog: Path) -> Iterator[None]:
    """Lock the catalog against changes for the duration of a block."""
    try:
        with closing(_connected(catalog)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.rollback()
    except sqlite3.Error as error:
        raise ConflictError(
            f"The catalog {catalog} could not be locked: {error}.",
            hint="Another process keeps changing it; try again.",
        ) from error


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{file}?mode=rw", uri=True, isolation_level=None, timeout=LOCK_WAIT_S
    )


def _copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite file including what is still only in its journal."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(_connected(source)) as reader, closing(sqlite3.connect(target)) as writer:
        reader.backup(writer)
        # Only this file is copied further, so nothing may remain in a journal next to it.
        writer.execute("PRAGMA journal_mode = DELETE")


@dataclass(slots=True)
class _Links:
    """Links files of a directory into a folder with the same layout. Used once."""

    directory: Path
    stage: Path
    with_lake: bool
    clock: Clock
    _until: float = math.inf

    def all(self) -> tuple[CutFile, ...]:
        """Link everything at one moment, and return how long each file was then."""
        for _ in range(HOLDS_MAX):
            self._until = math.inf
            for top in ("lake", "log"):
                self._link(self._names_below(top))
            try:
                with _held(self.directory / CATALOG):
                    self._until = self.clock.monotonic() + HOLD_S_MAX
                    _copy_database(self.directory / CATALOG, self.stage / CATALOG)
                    names = self._lake() | self._names("") | self._logs()
                    self._link(self._names(""))
                    self._forget_others(names)
                    return tuple(self._lengths())
            except _HeldTooLongError:
                continue
        raise ConflictError(
            f"The catalog could not be released within {HOLD_S_MAX:g} s, {HOLDS_MAX} "
            "times in a row.",
            hint=("Try again when fewer rows are written, or stop the server for the backup."),
        )

    def _lake(self) -> Names:
        """Link the lake while no table gains or loses a snapshot."""
        for _ in range(ATTEMPTS_MAX):
            before = self._snapshots()
            if self.with_lake and (self.directory / LAKE_CATALOG).is_file():
                _copy_database(self.directory / LAKE_CATALOG, self.stage / LAKE_CATALOG)
            names = self._names_below("lake")
            self._link(names)
            if self._snapshots() == before:
                return names
        raise ConflictError(
            "The lake kept changing while it was being linked.",
            hint="Pause the tierer for a moment, or leave out the lake.",
        )

    def _snapshots(self) -> tuple[object, ...]:
        """Identify the newest snapshot of every lake table."""
        if not self.with_lake:
            return ()
        paimon = self.directory.glob("lake/paimon/*/*/snapshot/snapshot-*")
        found = sorted(map(str, paimon))
        if not (self.directory / LAKE_CATALOG).is_file():
            return tuple(found)
        with closing(_connected(self.directory / LAKE_CATALOG)) as connection:
            return (*found, *connection.execute(_POINTERS).fetchall())

    def _logs(self) -> Names:
        """Link the log and the state of every bucket."""
        names: Names = {}
        for pattern in _BUCKETS:
            for bucket in sorted(self.directory.glob(pattern)):
                names |= self._bucket(str(bucket.relative_to(self.directory)))
        return names

    def _bucket(self, folder: str) -> Names:
        """Link a bucket until its files are the same before and after."""
        for _ in range(ATTEMPTS_MAX):
            names = self._names_below(folder)
            if self._link(names) and _lasting(names) == _lasting(self._names_below(folder)):
                return names
        raise ConflictError(f"The files in {folder} kept changing.", hint="Try again.")

    def _link(self, names: Names) -> bool:
        """Link files under their names; return whether all of them still existed."""
        is_whole = True
        for name, inode in names.items():
            if self.clock.monotonic() > self._until:
                raise _HeldTooLongError
            target = self.stage / name
            if _inode(target) == inode:
                continue
            target.unlink(missing_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(self.directory / name, target)
            except FileNotFoundError:
                is_whole = False
            except OSError as error:
                raise _unlinkable(self.directory, error) from error
        return is_whole

    def _forget_others(self, names: Names) -> None:
        """Remove links to files that disappeared before the cut was made."""
        kept = {*names, CATALOG, LAKE_CATALOG}
        for each in self._lengths():
            if each.path not in kept:
                (self.stage / each.path).unlink()

    def _lengths(self) -> Iterator[CutFile]:
        for folder, _, names in os.walk(self.stage):
            for name in sorted(names):
                path = Path(folder) / name
                yield CutFile(str(path.relative_to(self.stage)), path.stat().st_size)

    def _names_below(self, top: str) -> Names:
        names: Names = {}
        for folder, folders, _ in os.walk(self.directory / top):
            relative = str(Path(folder).relative_to(self.directory))
            names |= self._names(relative)
            folders[:] = [each for each in folders if self._belongs(f"{relative}/{each}")]
        return names

    def _names(self, folder: str) -> Names:
        try:
            with os.scandir(self.directory / folder) as entries:
                found = {os.path.join(folder, each.name): each for each in entries}  # noqa: PTH118
        except FileNotFoundError:
            return {}
        names: Names = {}
        for name, each in found.items():
            if each.is_file(follow_symlinks=False) and self._belongs(name):
                with suppress(FileNotFoundError):
                    names[name] = each.stat(follow_symlinks=False).st_ino
        return names

    def _belongs(self, path: str) -> bool:
        if path in _SKIPPED or path.endswith(_TEMPORARY):
            return False
        return self.with_lake or path not in _LAKES


def _lasting(names: Names) -> Names:
    """Leave out files that are replaced often and may be from an earlier moment."""
    return {name: inode for name, inode in names.items() if not name.endswith(_CHECKPOINT)}


def _inode(path: Path) -> int | None:
    try:
        return path.stat(follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None


def _unlinkable(directory: Path, error: OSError) -> StorageError:
    hint = "Free some space and try again."
    if error.errno in _LINKS_FULL:
        hint = "This file system has no hard links. Stop the server and copy the whole directory."
    return StorageError(f"Files of {directory} cannot be linked: {error}.", hint=hint)
