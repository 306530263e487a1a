"""A directory of the machine as a disk."""

import errno
import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from headwater.store.disk import TEMPORARY_SUFFIX, Part, checked, parent_of
from headwater.store.durable import forget_cached, sync_all, sync_data, write_parts

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW
_FILE_MODE = 0o600
_STORAGE_NAMES = ("catalog.sqlite", "log")
_DIRECTORY_MODE = 0o700


# Raises where the directory must not be changed any more.
Guard = Callable[[], None]


def _no_guard() -> None:
    """Let everybody change everything."""


class LocalFile:
    """Be an open file of the machine."""

    __slots__ = ("_descriptor", "_guard", "_size")

    def __init__(self, descriptor: int, guard: Guard = _no_guard) -> None:
        self._descriptor = descriptor
        self._guard = guard
        self._size = os.fstat(descriptor).st_size

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def size(self) -> int:
        """Return the length in bytes."""
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
            # The kernel may count pages as written that are not, and show them until they leave
            # its memory: whoever starts again would take them for durable.
            forget_cached(self._descriptor)
            raise
        # What is durable where nobody will look for it is lost all the same.
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
        """Cut the file."""
        self._guard()
        os.ftruncate(self._descriptor, length)
        self._size = length

    def _cut_back(self, length: int, error: BaseException) -> None:
        try:
            os.ftruncate(self._descriptor, length)
        except OSError:
            # Whatever failed first, a tail that cannot be removed is worse than a full disk.
            raise OSError(errno.EIO, "a failed write could not be cut back") from error


class LocalDisk:
    """Keep files below one directory of the machine.

    Before every change and after every sync the guard is asked, which raises once the directory
    belongs to somebody else.
    """

    def __init__(self, root: str | Path, *, guard: Guard = _no_guard) -> None:
        self._root = Path(root)
        self._guard = guard
        # Directories of which every name that was there before is durable.
        self._synced: set[str] = set()
        self._has_root = False

    def create(self, path: str) -> LocalFile:
        """Create an empty file that must not be there yet."""
        self._guard()
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def open(self, path: str) -> LocalFile:
        """Open a file that is there."""
        try:
            return self._open(path, os.O_RDWR)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            return self._open(path, os.O_RDONLY)  # Whoever writes is told then.

    def map(self, path: str) -> memoryview:
        """Return the bytes of a file that is never written again, read as they are needed."""
        descriptor = os.open(self._full(path), os.O_RDONLY | _SAFE)
        try:
            if not os.fstat(descriptor).st_size:
                return memoryview(b"")
            mapped = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        # Reading ahead of every row would push out of memory what others need.
        if hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_RANDOM)
        return memoryview(mapped)

    def replace(self, path: str, content: bytes) -> None:
        """Put a small file in place, whole and durable or not at all."""
        temporary = path + TEMPORARY_SUFFIX
        self._guard()
        file = self._open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        file.append([content])
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(parent_of(path))

    def rename(self, source: str, target: str) -> None:
        """Give a file another name; durable once its directory is synced."""
        self._guard()
        self._full(source).rename(self._full(target))

    def unlink(self, path: str) -> None:
        """Remove a name; durable once its directory is synced."""
        self._guard()
        self._full(path).unlink()

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(entry.name for entry in self._full(path).iterdir())

    def make_directories(self, path: str) -> None:
        """Create a directory and its parents durably, where missing."""
        if not path:
            self._make_root()
            return
        parent, full = parent_of(path), self._full(path)
        self.make_directories(parent)
        is_new = not full.is_dir()
        full.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        # Whoever made one that is there may have been killed before it was durable.
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
    """Tell whether somebody has opened a data directory here before."""
    return any((directory / name).exists() for name in _STORAGE_NAMES)


def make_durably(directory: Path, *, mode: int = 0o777) -> None:
    """Create a directory and its parents, where missing, so that they survive a crash."""
    missing = [each for each in directory.parents if not each.is_dir()]
    # Whoever made it, if it is there, may have been killed before it was durable.
    for each in (*reversed(missing), directory):
        each.mkdir(mode=mode, exist_ok=True)
        # One may make a directory where one may not look around.
        with suppress(PermissionError):
            sync_names(each.parent.resolve())


def sync_names(directory: Path) -> None:
    """Make creations, renames and removals in a directory survive a crash."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | _SAFE)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)
