"""One moment of a data directory, held by hard links while its server goes on.

A plain copy of a running storage is of many moments: the catalog may know less than the logs, the
lake more. Here nothing that the copy needs can change or vanish:

1. Link everything ahead of time, so that little is left for the next steps.
2. Hold the catalog's write lock. No table, schema, partition, writer or report of the lake comes
   or goes; appends, upserts and reads go on. Copy the catalog.
3. Link what is new of the lake, then of the logs. So no log ends before what the lake holds of
   it, and none begins behind what the catalog says the lake holds.
4. Let go of the lock; the links are copied at leisure.

Files never change under their name, but for the last segment of a log, which grows: its length is
noted, and only that much belongs to the cut. Upkeep (compaction, retention, snapshots) may still
replace files of a bucket between two looks, so a bucket is linked again until the same files are
there before and after. What the cut holds is what a crash at that moment would have left.

Known limit: the lake is in it only where it lies below the data directory.
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
from headwater.runtime.clock import Clock, SystemClock
from headwater.runtime.ids import random_bytes

CATALOG = "catalog.sqlite"
LAKE_CATALOG = "lake/iceberg/catalog.sqlite"
STAGE_PREFIX = ".backup-"
LOCK_WAIT_S = 10.0
ATTEMPTS_MAX = 50
HOLD_S_MAX = 3.0  # a server waits 5 s for its catalog before it refuses a change
HOLDS_MAX = 5
_SKIPPED = ("LOCK", LAKE_CATALOG, CATALOG, "log/dropped")
_LAKES = ("lake/iceberg", "lake/paimon")
_BUCKETS = ("log/[0-9]*/[0-9]*", "log/[0-9]*/p[0-9]*/[0-9]*")
_TEMPORARY = (".tmp", ".draft", "-wal", "-shm", "-journal")
_CHECKPOINT = "/checkpoint"
_LINKS_FULL = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
_POINTERS = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"

Names = dict[str, int]
"""Files below a directory with their inodes: one that was replaced has another."""


class _HeldTooLongError(Exception):
    """Tell that the catalog must be let go of before a server is refused a change."""


@dataclass(frozen=True, slots=True)
class CutFile:
    """Name a file of a cut, and how much of it belongs to it."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Hold the files of one moment below a folder of links."""

    stage: Path
    files: tuple[CutFile, ...]
    has_lake: bool


@contextmanager
def cut_of(directory: Path, *, with_lake: bool, clock: Clock | None = None) -> Iterator[Cut]:
    """Hold one moment of a directory, which may be in use, as long as a block runs."""
    if not (directory / CATALOG).is_file():
        raise MissingError(
            f"{directory} is not a data directory: it has no {CATALOG}.",
            hint="Give the directory of the storage, as headwater serve was given it.",
        )
    with _stage(directory) as stage:
        links = _Links(directory, stage, with_lake=with_lake, clock=clock or SystemClock())
        files = links.all()
        yield Cut(stage, files, has_lake=with_lake and (stage / "lake").is_dir())


@contextmanager
def _stage(directory: Path) -> Iterator[Path]:
    """Make a folder for links beside the files, and clear away what a killed backup left."""
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
    """Keep everybody from changing the catalog while a block runs."""
    try:
        with closing(_connected(catalog)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.rollback()
    except sqlite3.Error as error:
        raise ConflictError(
            f"The catalog {catalog} could not be held: {error}.",
            hint="Somebody changes it all the time; try again.",
        ) from error


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{file}?mode=rw", uri=True, isolation_level=None, timeout=LOCK_WAIT_S
    )


def _copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite file, with what is only in its journal yet."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(_connected(source)) as reader, closing(sqlite3.connect(target)) as writer:
        reader.backup(writer)
        # In the copy nothing may be left beside the file: only it is copied on.
        writer.execute("PRAGMA journal_mode = DELETE")


@dataclass(slots=True)
class _Links:
    """Link files of a directory into a folder of the same layout. Used once."""

    directory: Path
    stage: Path
    with_lake: bool
    clock: Clock
    _until: float = math.inf

    def all(self) -> tuple[CutFile, ...]:
        """Link everything at one moment, and tell how long each file was then."""
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
            f"The storage could not be held for {HOLD_S_MAX:g} s, {HOLDS_MAX} times in a row.",
            hint="Try again when less is written, or stop the server for the backup.",
        )

    def _lake(self) -> Names:
        """Link the lake at one moment: no table gets or loses a snapshot while it is linked."""
        for _ in range(ATTEMPTS_MAX):
            before = self._snapshots()
            if self.with_lake and (self.directory / LAKE_CATALOG).is_file():
                _copy_database(self.directory / LAKE_CATALOG, self.stage / LAKE_CATALOG)
            names = self._names_below("lake")
            self._link(names)
            if self._snapshots() == before:
                return names
        raise ConflictError(
            "The lake changed all the time while it was linked.",
            hint="Pause the tierer for a moment, or leave the lake out.",
        )

    def _snapshots(self) -> tuple[object, ...]:
        """Return what names the newest state of every lake table."""
        if not self.with_lake:
            return ()
        paimon = self.directory.glob("lake/paimon/*/*/snapshot/snapshot-*")
        found = sorted(map(str, paimon))
        if not (self.directory / LAKE_CATALOG).is_file():
            return tuple(found)
        with closing(_connected(self.directory / LAKE_CATALOG)) as connection:
            return (*found, *connection.execute(_POINTERS).fetchall())

    def _logs(self) -> Names:
        """Link every bucket, its log and its state."""
        names: Names = {}
        for pattern in _BUCKETS:
            for bucket in sorted(self.directory.glob(pattern)):
                names |= self._bucket(str(bucket.relative_to(self.directory)))
        return names

    def _bucket(self, folder: str) -> Names:
        """Link a bucket until the same files are there before and after."""
        for _ in range(ATTEMPTS_MAX):
            names = self._names_below(folder)
            if self._link(names) and _lasting(names) == _lasting(self._names_below(folder)):
                return names
        raise ConflictError(f"The files in {folder} changed all the time.", hint="Try again.")

    def _link(self, names: Names) -> bool:
        """Link files under their names; tell whether all were still there."""
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
        """Remove links to files that went before the cut was made."""
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
        """Return all files below a folder."""
        names: Names = {}
        for folder, folders, _ in os.walk(self.directory / top):
            relative = str(Path(folder).relative_to(self.directory))
            names |= self._names(relative)
            folders[:] = [each for each in folders if self._belongs(f"{relative}/{each}")]
        return names

    def _names(self, folder: str) -> Names:
        """Return the files in a folder itself."""
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
    """Leave out what is replaced often, and may be of an earlier moment."""
    return {name: inode for name, inode in names.items() if not name.endswith(_CHECKPOINT)}


def _inode(path: Path) -> int | None:
    try:
        return path.stat(follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None


def _unlinkable(directory: Path, error: OSError) -> StorageError:
    hint = "Make room, and try again."
    if error.errno in _LINKS_FULL:
        hint = "This file system has no hard links. Stop the server, and copy the whole directory."
    return StorageError(f"Files of {directory} cannot be linked: {error}.", hint=hint)
