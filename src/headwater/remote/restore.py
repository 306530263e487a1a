"""Make a data directory from a remote storage, verified by checksums.

An interrupted restore goes on where it stopped: what is in `DIRECTORY.restoring` and has the right
checksum is not fetched again.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock

import google_crc32c

from headwater import errors
from headwater.remote.history import whole_tree
from headwater.remote.objects import Objects, pauses
from headwater.remote.tree import CATALOG_FOLDER, ObjectPiece, RemoteFile, Tree
from headwater.store.local import sync_all, sync_path

RESTORING_SUFFIX = ".restoring"
READ_BYTES = 8 << 20
THREADS = 8
ATTEMPTS_MAX = 6
LOGS = "log"
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700

Progress = Callable[[int, int], None]
"""Called with the bytes that are done and the total."""
Sleep = Callable[[float], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteReport:
    """What was restored, or verified."""

    address: str
    number: int
    epoch: int
    at_ms: int
    is_last: bool
    """The server had stopped, so nothing is missing."""
    rows: int
    rows_per_s: float
    file_count: int
    byte_count: int
    fetched_bytes: int


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file of the tree and its place in the directory."""

    path: Path
    file: RemoteFile


def restore(
    objects: Objects,
    directory: Path,
    *,
    sleep: Sleep,
    until_ms: int | None = None,
    progress: Progress = lambda _done, _total: None,
) -> RemoteReport:
    """Restore the newest state, or that of a moment, into a new directory.

    1. read what there is  2. fetch it beside the directory, skipping what is there already
    3. make it durable, and rename it to the directory
    """
    _check_empty(directory)
    tree = whole_tree(objects, until_ms=until_ms)
    drafts = directory.with_name(directory.name + RESTORING_SUFFIX)
    wanted = [_Wanted(drafts / name, file) for name, file in files_of(tree)]
    _check_room(drafts, sum(each.file.size for each in wanted))
    drafts.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    _remove_others(drafts, {each.path for each in wanted})
    fetched = _Fetching(objects, sleep, progress, tree.size_bytes).all(wanted)
    for folder, _, _ in os.walk(drafts, topdown=False):
        sync_path(folder)
    if directory.exists():
        directory.rmdir()
    drafts.rename(directory)
    sync_path(directory.absolute().parent)
    return report_of(objects, tree, fetched_bytes=fetched)


def report_of(objects: Objects, tree: Tree, *, fetched_bytes: int) -> RemoteReport:
    """Summarise a tree."""
    return RemoteReport(
        address=objects.address,
        number=tree.number,
        epoch=tree.epoch,
        at_ms=tree.whole_at_ms,
        is_last=tree.is_last,
        rows=tree.rows,
        rows_per_s=tree.rows_per_s,
        file_count=sum(len(each.files) for each in tree.folders.values()),
        byte_count=tree.size_bytes,
        fetched_bytes=fetched_bytes,
    )


def files_of(tree: Tree) -> Iterator[tuple[str, RemoteFile]]:
    """Yield the files of a tree by their paths in a data directory."""
    for folder, content in tree.folders.items():
        place = "" if folder == CATALOG_FOLDER else f"{LOGS}/{folder}/"
        for name, file in content.files.items():
            yield place + name, file


def fetch(objects: Objects, piece: ObjectPiece) -> Iterator[bytes]:
    """Yield the bytes of a piece; raise CorruptFileError if they are not what was put."""
    crc, position, end = 0, piece.at, piece.at + piece.size
    while position < end:
        part = objects.read(piece.key, start=position, length=min(READ_BYTES, end - position))
        if not part:
            raise errors.CorruptFileError(
                f"{objects.address} lacks bytes of the object {piece.key}.",
                hint="Restore an earlier moment with --to, or audit the remote storage.",
            )
        crc = google_crc32c.extend(crc, part)
        position += len(part)
        yield part
    if crc != piece.crc:
        raise errors.CorruptFileError(
            f"The object {piece.key} of {objects.address} is damaged: its checksum does not match.",
            hint="Restore an earlier moment with --to, or audit the remote storage.",
        )


class _Fetching:
    """Fetches files in several threads. Used once."""

    def __init__(self, objects: Objects, sleep: Sleep, progress: Progress, total: int) -> None:
        self._objects = objects
        self._sleep = sleep
        self._progress = progress
        self._total = total
        self._done = self._fetched = 0
        self._lock = Lock()

    def all(self, wanted: list[_Wanted]) -> int:
        """Fetch all files, and return how many bytes had to be fetched."""
        for folder in {each.path.parent for each in wanted}:
            folder.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="headwater-restore") as threads:
            for done in [threads.submit(self._file, each) for each in wanted]:
                done.result()
        return self._fetched

    def _file(self, wanted: _Wanted) -> None:
        descriptor = os.open(wanted.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        with os.fdopen(descriptor, "r+b") as file:
            position = 0
            for piece in wanted.file.pieces:
                if not _is_there(file.fileno(), position, piece):
                    self._persist(partial(self._piece, file.fileno(), position, piece))
                    self._fetched += piece.size
                position += piece.size
                self._note(piece.size)
            file.truncate(position)
            sync_all(file.fileno())

    def _piece(self, descriptor: int, position: int, piece: ObjectPiece) -> None:
        for part in fetch(self._objects, piece):
            os.pwrite(descriptor, part, position)
            position += len(part)

    def _persist(self, work: Callable[[], None]) -> None:
        for attempt, pause_s in enumerate(pauses(), 1):
            try:
                work()
                break
            except errors.RetryLaterError:
                if attempt == ATTEMPTS_MAX:
                    raise
                self._sleep(pause_s)

    def _note(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._progress(self._done, self._total)


def _is_there(descriptor: int, position: int, piece: ObjectPiece) -> bool:
    """Tell whether an earlier attempt has fetched a piece."""
    crc, end = 0, position + piece.size
    while position < end:
        part = os.pread(descriptor, min(READ_BYTES, end - position), position)
        if not part:
            return False
        crc = google_crc32c.extend(crc, part)
        position += len(part)
    return crc == piece.crc


def _check_empty(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise errors.ConflictError(
            f"{directory} already exists and is not empty.", hint="Choose a new directory."
        )


def _check_room(target: Path, needed: int) -> None:
    existing = next(each for each in (target, *target.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(existing).free
    held = sum(each.stat().st_size for each in target.rglob("*") if each.is_file())
    if needed > free + held:
        raise errors.DiskFullError(
            f"{target} needs {needed:,} bytes, but its disk has only {free + held:,} free.",
            hint="Free some space, or choose another disk.",
        )


def _remove_others(drafts: Path, wanted: set[Path]) -> None:
    """Remove files of an earlier attempt that restored another moment."""
    for each in sorted(drafts.rglob("*"), reverse=True):
        if each.is_file() and each not in wanted:
            each.unlink()
