"""The disk interface that the layers above use.

Paths are relative to the disk's root and are built from integers and fixed words, never from user
input. A file closes when its last reference goes away, so a reader may continue while the file is
renamed or unlinked.
"""

import errno
from collections.abc import Sequence
from typing import Protocol

Part = bytes | memoryview


class File(Protocol):
    """An open file that is read anywhere and written at its end."""

    @property
    def size(self) -> int:
        """Length in bytes."""
        ...

    def append(self, parts: Sequence[Part]) -> None:
        """Write all parts at the end, or raise OSError and leave the file as it was."""
        ...

    def sync(self) -> None:
        """Make everything written so far survive a crash."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes at a position; fewer only where the file ends."""
        ...

    def truncate(self, length: int) -> None:
        """Cut the file to a length."""
        ...


class Disk(Protocol):
    """The only way to access files; failures are OSErrors, or say that the directory was lost."""

    def create(self, path: str) -> File:
        """Create an empty file; fails if it exists."""
        ...

    def open(self, path: str) -> File:
        """Open an existing file."""
        ...

    def map(self, path: str) -> memoryview:
        """Map the bytes of a file that never changes again; they are read on demand."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file atomically and durably."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file; durable once its directory is synced."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a name; durable once its directory is synced."""
        ...

    def listdir(self, path: str) -> list[str]:
        """List the names in a directory, sorted."""
        ...

    def make_directories(self, path: str) -> None:
        """Create a directory and missing parents durably."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory survive a crash."""
        ...


# Out of descriptors or memory for a moment: nothing has happened to the disk.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_passing(error: OSError) -> bool:
    """Tell whether the same call may succeed soon, with nothing lost by its failure."""
    return error.errno in _PASSING


TEMPORARY_SUFFIX = ".tmp"


def parent_of(path: str) -> str:
    """The directory that contains a path; the root is the empty string."""
    return path.rpartition("/")[0]


def checked(path: str) -> str:
    """Assert that a path stays below the root, and return it."""
    names = path.split("/") if path else []
    assert not any(name in ("", ".", "..") or "\0" in name for name in names), path
    return path
