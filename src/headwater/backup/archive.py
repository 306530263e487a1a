"""Backups: copy one moment of a storage elsewhere, verify it by checksums, and restore it.

A backup is a directory with the layout of a data directory and a list of its files, lengths and
checksums in `backup.json`. The list is written last: a folder without it is not a complete backup.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import google_crc32c

from headwater.backup.cut import CutFile, cut_of
from headwater.errors import ConflictError, CorruptFileError, DiskFullError, MissingError
from headwater.runtime.clock import Clock, SystemClock
from headwater.server.catalog.lock import DirectoryLock
from headwater.store.local import sync_all, sync_path

LIST_NAME = "backup.json"
VERSION = 1
RESTORING_SUFFIX = ".restoring"
_CHUNK_BYTES = 4 * 1024 * 1024
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700
ICEBERG_HOME = Path("lake") / "iceberg"

Progress = Callable[[int, int], None]
"""Called with the bytes copied so far and the total."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of a backup with its length and checksum."""

    path: str
    size: int
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """What a backup contains."""

    place: Path
    made_ms: int
    source: str
    has_lake: bool
    files: tuple[Stored, ...]

    @property
    def byte_count(self) -> int:
        """Total length of all files."""
        return sum(each.size for each in self.files)


def backup(
    directory: Path,
    target: Path,
    *,
    with_lake: bool = True,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> BackupReport:
    """Copy a storage as of one moment into an empty directory; it may be in use meanwhile."""
    clock = clock or SystemClock()
    _check_empty(target, inside=directory)
    with cut_of(directory, with_lake=with_lake, clock=clock) as cut:
        made_ms = clock.now_ms()
        _check_room(target, sum(each.size for each in cut.files))
        files = _copied(cut.files, cut.stage, target, progress or _silent)
        report = BackupReport(
            place=target,
            made_ms=made_ms,
            source=str(directory.absolute()),
            has_lake=cut.has_lake,
            files=files,
        )
    _sync_folders(target)
    _write_list(report)
    return report


def verify(place: Path, *, progress: Progress | None = None) -> BackupReport:
    """Read every file of a backup and list those that are missing or damaged."""
    report = _read_list(place)
    progress, done = progress or _silent, 0
    for each in report.files:
        if _found(place / each.path) != (each.size, each.crc32c):
            raise _damaged(place / each.path)
        done += each.size
        progress(done, report.byte_count)
    return report


def restore(place: Path, directory: Path, *, progress: Progress | None = None) -> BackupReport:
    """Restore a backup into a new directory, verifying every byte.

    1. copy next to the directory, skipping what an interrupted restore already copied
    2. rename the copy to the directory
    3. rewrite the paths inside an Iceberg lake to the new location
    """
    report = _read_list(place)
    _check_empty(directory, inside=place)
    drafts = directory.with_name(directory.name + RESTORING_SUFFIX)
    left = [each for each in report.files if _found(drafts / each.path) != (each.size, each.crc32c)]
    _check_room(drafts, sum(each.size for each in left))
    wanted = {each.path: each for each in report.files}
    files = _copied([CutFile(each.path, each.size) for each in left], place, drafts, progress)
    for each in files:
        if each != wanted[each.path]:
            (drafts / each.path).unlink()
            raise _damaged(place / each.path)
    _sync_folders(drafts)
    if directory.exists():
        directory.rmdir()
    drafts.rename(directory)
    sync_path(directory.absolute().parent)
    relocate(directory)
    return report


def relocate(directory: Path) -> tuple[str, ...]:
    """Rewrite the paths inside the Iceberg lake of a directory that was moved or copied."""
    home = directory / ICEBERG_HOME
    if not (home / "catalog.sqlite").is_file():
        return ()
    lock = DirectoryLock.take(directory)
    try:
        # Imported here because most storages have no lake and need none of its libraries.
        moved = import_module("headwater.backup.relocate").relocate_warehouse(home)
    finally:
        lock.release()
    return tuple(map(str, moved))


def _silent(_done: int, _total: int) -> None:
    pass


def _check_empty(target: Path, *, inside: Path) -> None:
    if target.absolute().is_relative_to(inside.absolute()):
        raise ConflictError(
            f"{target} lies inside {inside}.", hint="Choose a directory outside it."
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConflictError(
            f"{target} already exists and is not empty.", hint="Choose a new directory."
        )


def _check_room(target: Path, needed: int) -> None:
    existing = next(each for each in (target, *target.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise DiskFullError(
            f"{target} needs {needed:,} bytes, but its disk has only {free:,} free.",
            hint="Free some space, or choose another disk.",
        )


def _copied(
    files: Iterable[CutFile], source: Path, target: Path, progress: Progress | None
) -> tuple[Stored, ...]:
    progress, done, listed = progress or _silent, 0, list(files)
    total = sum(each.size for each in listed)
    stored: list[Stored] = []
    target.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    for each in listed:
        for chunk_bytes in _copy(each, source, target, stored):
            done += chunk_bytes
            progress(done, total)
    return tuple(stored)


def _copy(file: CutFile, source: Path, target: Path, stored: list[Stored]) -> Iterable[int]:
    """Copy a file as far as it belongs to the cut, durably; yield the bytes copied so far."""
    place = target / file.path
    place.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    checksum, size = 0, 0
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
    with (source / file.path).open("rb") as reader, os.fdopen(descriptor, "wb") as writer:
        while chunk := reader.read(min(_CHUNK_BYTES, file.size - size)):
            writer.write(chunk)
            checksum = google_crc32c.extend(checksum, chunk)
            size += len(chunk)
            yield len(chunk)
        writer.flush()
        sync_all(writer.fileno())
    stored.append(Stored(file.path, size, checksum))


def _found(path: Path) -> tuple[int, int] | None:
    checksum, size = 0, 0
    try:
        with path.open("rb") as reader:
            while chunk := reader.read(_CHUNK_BYTES):
                checksum = google_crc32c.extend(checksum, chunk)
                size += len(chunk)
    except FileNotFoundError:
        return None
    return size, checksum


def _sync_folders(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        sync_path(folder)
    sync_path(top.absolute().parent)


def _write_list(report: BackupReport) -> None:
    document = {
        "version": VERSION,
        "made_ms": report.made_ms,
        "source": report.source,
        "has_lake": report.has_lake,
        "files": [[each.path, each.size, each.crc32c] for each in report.files],
    }
    text = json.dumps(document, sort_keys=True)
    draft = report.place / f"{LIST_NAME}.tmp"
    with draft.open("w", encoding="utf-8") as file:
        # The checksum covers the first line, so a truncated list is detected.
        file.write(f"{text}\n{google_crc32c.value(text.encode()):08x}\n")
        file.flush()
        sync_all(file.fileno())
    draft.replace(report.place / LIST_NAME)
    sync_path(report.place)


def _read_list(place: Path) -> BackupReport:
    path = place / LIST_NAME
    try:
        text, _, end = path.read_text(encoding="utf-8").partition("\n")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingError(
            f"{place} is not a complete backup: {LIST_NAME} is missing.",
            hint="headwater backup writes that file last; run the backup again.",
        ) from error
    except UnicodeDecodeError as error:
        raise _damaged(path) from error
    if end != f"{google_crc32c.value(text.encode()):08x}\n":
        raise _damaged(path)
    document = json.loads(text)
    if document["version"] > VERSION:
        raise ConflictError(
            f"The backup {place} has version {document['version']}, but this program "
            f"reads version {VERSION}.",
            hint="A newer version of Headwater made it; restore it with that version.",
        )
    return BackupReport(
        place=place,
        made_ms=document["made_ms"],
        source=document["source"],
        has_lake=document["has_lake"],
        files=tuple(Stored(*each) for each in document["files"]),
    )


def _damaged(path: Path) -> CorruptFileError:
    return CorruptFileError(
        f"{path} is missing or damaged: its checksum does not match the backup's list.",
        hint="Restore from another backup; this one cannot be trusted.",
    )
