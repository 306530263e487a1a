"""A local directory as a disk.

Linux has a system call for each step of making bytes durable. Other systems lack some, or give a
call of the same name a weaker meaning: on macOS `fsync` only hands the bytes to the drive, whose
cache may not survive a power loss, and `F_FULLFSYNC` empties that cache. Every durable write goes
through here, so that no caller has to know.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from headwater.store.disk import TEMPORARY_SUFFIX, Part, checked, parent_of

PARTS_PER_WRITE_MAX = 1024  # the kernel's IOV_MAX
# Network file systems have no drive cache to flush and reject the call.
_NO_FULL_SYNC = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
_full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_plain_sync = getattr(os, "fdatasync", os.fsync)


def sync_data(descriptor: int) -> None:
    """Make the bytes of a file durable, without the metadata that no reader needs."""
    if _full_sync is None or not _synced_fully(descriptor, _full_sync):
        _plain_sync(descriptor)


def sync_all(descriptor: int) -> None:
    """Make a file, or the names in a directory, durable."""
    if _full_sync is None or not _synced_fully(descriptor, _full_sync):
        os.fsync(descriptor)


# Identifies the version of a file.
Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """Identify the version of a file, None if there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def save_private(path: Path, text: str) -> None:
    """Replace a file by a durable one that only its owner may read."""
    temporary = path.with_name(f".{path.name}.new")
    # A leftover may have another mode, or be a link to somewhere else.
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        sync_all(file.fileno())
    temporary.replace(path)


def sync_path(path: str | Path) -> None:
    """Make a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)


def forget_cached(descriptor: int) -> None:
    """Drop cached pages so that the next reader sees the disk, on systems that support it."""
    advise = getattr(os, "posix_fadvise", None)
    if advise is not None:
        with suppress(OSError):  # only advice, and something has failed already
            advise(descriptor, 0, 0, getattr(os, "POSIX_FADV_DONTNEED", 4))


def write_parts(descriptor: int, parts: Sequence[Part], position: int) -> int:
    """Write the parts, in one call where the system allows it, and return the end position."""
    rest, end = parts, position + sum(map(len, parts))
    while True:
        written = _write_some(descriptor, rest[:PARTS_PER_WRITE_MAX], position)
        position += written
        if position == end:
            return end
        rest = _after(rest, written)


def _synced_fully(descriptor: int, command: int) -> bool:
    try:
        fcntl.fcntl(descriptor, command)
    except OSError as error:
        if error.errno not in _NO_FULL_SYNC:
            raise
        return False
    return True


def _write_some(descriptor: int, parts: Sequence[Part], position: int) -> int:
    if hasattr(os, "pwritev"):
        return os.pwritev(descriptor, parts, position)
    # Joined, because a log written in several calls can be torn in several places.
    return os.pwrite(descriptor, b"".join(parts), position)


def _after(parts: Sequence[Part], written: int) -> Sequence[Part]:
    """Drop the bytes already written from the parts."""
    for index, part in enumerate(parts):
        if written < len(part):
            return [memoryview(part)[written:], *parts[index + 1 :]]
        written -= len(part)
    return []


_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW
_FILE_MODE = 0o600
_STORAGE_NAMES = ("catalog.sqlite", "log")
_DIRECTORY_MODE = 0o700


# Raises when the directory must not be changed any more.
Guard = Callable[[], None]


def _no_guard() -> None:
    """Let everybody change everything."""


class LocalFile:
    """An open local file."""

    __slots__ = ("_descriptor", "_guard", "_size")

    def __init__(self, descriptor: int, guard: Guard = _no_guard) -> None:
        self._descriptor = descriptor
        self._guard = guard
        self._size = os.fstat(descriptor).st_size

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._size

    def append(self, parts: Sequence[Part]) -> None:
        """Write all parts at the end, or raise OSError and leave the file as it was."""
        self._guard()
        start = self._size
        try:
            end = write_parts(self._descriptor, parts, start)
        except BaseException as error:
            self._cut_back(start, error)
            raise
        self._size = end

    def sync(self) -> None:
        """Make everything written so far survive a crash."""
        try:
            sync_data(self._descriptor)
        except OSError:
            # After a failed sync the kernel may treat unwritten pages as clean and keep showing
            # them: a restarted process would take them for durable.
            forget_cached(self._descriptor)
            raise
        # Durable bytes in a deleted file are lost all the same.
        self._guard()
        if not os.fstat(self._descriptor).st_nlink:
            raise OSError(errno.ESTALE, "the file was deleted while it was in use")

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes at a position; fewer only where the file ends."""
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        return data + self.read(position + len(data), length - len(data))

    def truncate(self, length: int) -> None:
        """Cut the file to a length."""
        self._guard()
        os.ftruncate(self._descriptor, length)
        self._size = length

    def _cut_back(self, length: int, error: BaseException) -> None:
        try:
            os.ftruncate(self._descriptor, length)
        except OSError:
            # Whatever failed first: a tail that cannot be removed is worse than a full disk.
            raise OSError(errno.EIO, "a failed write could not be undone") from error


class LocalDisk:
    """Files below one local directory.

    Before every change and after every sync, `guard` is called; it raises once the directory
    belongs to somebody else.
    """

    def __init__(self, root: str | Path, *, guard: Guard = _no_guard) -> None:
        self._root = Path(root)
        self._guard = guard
        # Directories whose earlier names are all known to be durable.
        self._synced: set[str] = set()
        self._has_root = False

    def create(self, path: str) -> LocalFile:
        """Create an empty file; fails if it exists."""
        self._guard()
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def open(self, path: str) -> LocalFile:
        """Open an existing file."""
        try:
            return self._open(path, os.O_RDWR)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            return self._open(path, os.O_RDONLY)  # Writing to it will fail later.

    def map(self, path: str) -> memoryview:
        """Map the bytes of a file that never changes again; they are read on demand."""
        descriptor = os.open(self._full(path), os.O_RDONLY | _SAFE)
        try:
            if not os.fstat(descriptor).st_size:
                return memoryview(b"")
            mapped = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        # Read-ahead for every row would evict what others need.
        if hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_RANDOM)
        return memoryview(mapped)

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file atomically and durably."""
        temporary = path + TEMPORARY_SUFFIX
        self._guard()
        file = self._open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        file.append([content])
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(parent_of(path))

    def rename(self, source: str, target: str) -> None:
        """Rename a file; durable once its directory is synced."""
        self._guard()
        self._full(source).rename(self._full(target))

    def unlink(self, path: str) -> None:
        """Remove a name; durable once its directory is synced."""
        self._guard()
        self._full(path).unlink()

    def listdir(self, path: str) -> list[str]:
        """List the names in a directory, sorted."""
        return sorted(entry.name for entry in self._full(path).iterdir())

    def make_directories(self, path: str) -> None:
        """Create a directory and missing parents durably."""
        if not path:
            self._make_root()
            return
        parent, full = parent_of(path), self._full(path)
        self.make_directories(parent)
        is_new = not full.is_dir()
        full.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        # The process that made an existing one may have died before it was durable.
        if is_new or parent not in self._synced:
            self.sync_directory(parent)
            self._synced.add(parent)

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory survive a crash."""
        sync_names(self._full(path))

    def _make_root(self) -> None:
        if not self._has_root:
            self._guard()
            make_durably(self._root, mode=_DIRECTORY_MODE)
            self._has_root = True

    def _full(self, path: str) -> Path:
        return self._root / checked(path)

    def _open(self, path: str, flags: int) -> LocalFile:
        return LocalFile(os.open(self._full(path), flags | _SAFE, _FILE_MODE), self._guard)


def holds_storage(directory: Path) -> bool:
    """Tell whether this directory was opened as a data directory before."""
    return any((directory / name).exists() for name in _STORAGE_NAMES)


def make_durably(directory: Path, *, mode: int = 0o777) -> None:
    """Create a directory and missing parents durably."""
    missing = [each for each in directory.parents if not each.is_dir()]
    # The process that made an existing one may have died before it was durable.
    for each in (*reversed(missing), directory):
        each.mkdir(mode=mode, exist_ok=True)
        # Creating a directory may be allowed where listing it is not.
        with suppress(PermissionError):
            sync_names(each.parent.resolve())


def sync_names(directory: Path) -> None:
    """Make creations, renames and removals in a directory survive a crash."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | _SAFE)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)
