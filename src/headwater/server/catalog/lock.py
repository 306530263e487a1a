"""The lock that keeps a data directory to one process."""

import fcntl
import os
from pathlib import Path

from headwater.errors import DirectoryInUseError, StorageError
from headwater.store.local import make_durably

LOCK_NAME = "LOCK"
_PID_BYTES_MAX = 32


class DirectoryLock:
    """Hold a directory until released; the kernel releases it when the process dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, directory: Path) -> "DirectoryLock":
        """Take the directory, or say which process holds it."""
        try:
            make_durably(directory)
            descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(
                f"The data directory {directory} cannot be used: {error}.",
                hint="Give a directory that this user may make, and write to.",
            ) from error
        try:
            _lock(descriptor, directory)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Let others take the directory; a second call does nothing."""
        # The file stays: removing it would let two processes lock two files of one name.
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _in_use(descriptor, directory) from error
    except OSError as error:
        raise StorageError(f"The data directory {directory} cannot be locked: {error}.") from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _in_use(descriptor: int, directory: Path) -> DirectoryInUseError:
    holder = os.pread(descriptor, _PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
    if holder == str(os.getpid()):
        return DirectoryInUseError(
            f"The data directory {directory} is open in this process already.",
            hint="Use what has it open, or close that first.",
        )
    return DirectoryInUseError(
        f"The data directory {directory} is in use by process {holder or 'unknown'}.",
        hint="Stop that process, or start this one with another data directory.",
    )
