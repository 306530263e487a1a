"""The lock that reserves a data directory for one process.

The directory itself is locked, which cannot be deleted while it is in use, and the file LOCK in it,
which shows older versions and people who has the directory. Before a change the owner checks
whether the path still leads to what it locked: it has lost a directory that was moved, replaced or
deleted, or in which another process made a lock.
"""

import errno
import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NoReturn

from headwater.errors import DirectoryInUseError, DirectoryLostError, StorageError
from headwater.runtime.events import Events
from headwater.store.local import make_durably

LOCK_NAME = "LOCK"
_PID_BYTES_MAX = 32
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW
# Errors of network file systems that can only lock files, or nothing.
_UNLOCKABLE = (errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
_UNMADE = (errno.EROFS, errno.ENOSPC, errno.EDQUOT)
_events = Events("lock")


class DirectoryLock:
    """Hold a directory until released; the kernel releases it when the process dies."""

    def __init__(self, path: Path, directory: int | None) -> None:
        self._path = path
        self._lock_path = path / LOCK_NAME
        self._directory = directory
        self._file: int | None = None
        self._identity: tuple[int, int] | None = None
        self._lost = ""
        self._remaking = Lock()
        _alive.add(self)

    @classmethod
    def take(cls, directory: Path) -> "DirectoryLock":
        """Lock the directory; the error names the process that has it."""
        path = directory.absolute()
        try:
            make_durably(path.parent)
            # Readable by its owner only; to change that, create it first or change its mode.
            make_durably(path, mode=0o700)
            lock = cls(path, _opened_directory(path))
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            lock._lock_all()
        except BaseException:
            lock.release()
            raise
        return lock

    def check(self) -> None:
        """Raise if this process has lost the directory; that is permanent."""
        if self._lost:
            raise self._error()
        try:
            found = self._lock_path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            self._miss_file()
            return
        except OSError as error:
            raise StorageError(
                f"Cannot access the data directory {self._path}: {error}."
            ) from error
        if (found.st_dev, found.st_ino) != self._identity:
            self._lose("its lock file was replaced, so another process may have it")

    def lose(self, reason: str) -> None:
        """Give the directory up for good, because somebody else goes on from a copy of it."""
        with suppress(DirectoryLostError):
            self._lose(reason)

    def release(self) -> None:
        """Release the directory; a second call does nothing."""
        # The file stays: removing it would let two processes lock two files of one name.
        descriptors = self._let_go("it was closed")
        for descriptor in descriptors:
            # A forked child may have it open as well.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def forget(self) -> None:
        """Leave the lock to the parent process after a fork."""
        self._remaking = Lock()
        for descriptor in self._let_go("it was opened before this process was forked"):
            os.close(descriptor)

    def _let_go(self, reason: str) -> list[int]:
        held = [each for each in (self._directory, self._file) if each is not None]
        self._directory, self._file, self._lost = None, None, self._lost or reason
        return held

    def _lock_all(self) -> None:
        if self._directory is not None and not self._lock(self._directory, may_fail=True):
            os.close(self._directory)
            self._directory = None
        try:
            self._take_file(os.O_CREAT)
        except OSError as error:
            # If nobody can create a file, none is missing.
            if error.errno not in _UNMADE or self._directory is None:
                raise _unusable(self._path, error) from error

    def _take_file(self, flags: int) -> None:
        descriptor = _opened_file(self._lock_path, flags)
        try:
            self._lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        found = os.fstat(descriptor)
        self._file, self._identity = descriptor, (found.st_dev, found.st_ino)
        _note_process(descriptor)

    def _lock(self, descriptor: int, *, may_fail: bool = False) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _in_use(self._path) from error
        except OSError as error:
            if may_fail and error.errno in _UNLOCKABLE:
                return False
            raise StorageError(f"Cannot lock the data directory {self._path}: {error}.") from error
        return True

    def _miss_file(self) -> None:
        """Recreate a deleted lock file, if the directory is still the one that is locked."""
        with self._remaking:
            if self._lost or not self._has_directory():
                self._lose("it was moved, replaced or deleted")
            before = self._file
            if before is None:
                return  # There never was one.
            try:
                self._take_file(os.O_CREAT | os.O_EXCL)
            except OSError:
                return  # Another thread created it, or nobody can: the next check shows.
            except DirectoryInUseError:
                self._lose("its lock file was deleted, and another process has created one")
            os.close(before)
            _events.warning("lock file deleted and recreated", directory=str(self._path))

    def _has_directory(self) -> bool:
        if self._directory is None:
            return False  # Only the file was locked, and that is gone.
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._directory))
        except OSError:
            return False

    def _lose(self, reason: str) -> NoReturn:
        if not self._lost:
            self._lost = reason
            _events.error("directory lost", directory=str(self._path), reason=reason)
        raise self._error()

    def _error(self) -> DirectoryLostError:
        return DirectoryLostError(f"The data directory {self._path} is lost: {self._lost}.")


_alive: "weakref.WeakSet[DirectoryLock]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    for lock in tuple(_alive):
        lock.forget()


# A forked process must not keep a directory that its parent has closed.
os.register_at_fork(after_in_child=_leave_to_parent)


def _opened_directory(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return None  # A directory may be usable but not listable.


def _opened_file(path: Path, flags: int) -> int:
    try:
        return os.open(path, os.O_RDWR | flags | _SAFE, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return os.open(path, os.O_RDONLY | _SAFE)


def _note_process(descriptor: int) -> None:
    """Write the process id for people, if the disk is writable."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        return


def _in_use(directory: Path) -> DirectoryInUseError:
    holder = ""
    with suppress(OSError):
        holder = (directory / LOCK_NAME).read_bytes()[:_PID_BYTES_MAX].decode("ascii", "replace")
    if holder.strip() == str(os.getpid()):
        return DirectoryInUseError(
            f"The data directory {directory} is already open in this process.",
            hint="Use the open storage, or close it first.",
        )
    return DirectoryInUseError(
        f"The data directory {directory} is in use by process {holder.strip() or 'unknown'}.",
        hint="Stop that process, or use another data directory.",
    )


def _unusable(directory: Path, error: OSError) -> StorageError:
    return StorageError(
        f"Cannot use the data directory {directory}: {error}.",
        hint="Use a directory that this user can create and write to.",
    )
