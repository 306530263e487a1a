"""What the layers above may ask of a disk.

Paths are relative to the root of the disk and built from integers and fixed words, never from
text that a user sent. A file closes when nobody holds it any more, so a reader may go on while
the file is renamed or unlinked.
"""

import errno
from collections.abc import Sequence
from typing import Protocol

Part = bytes | memoryview


class File(Protocol):
    """Be one open file that is read anywhere and written at its end."""

    @property
    def size(self) -> int:
        """Return the length in bytes."""
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
        """Cut the file."""
        ...


class Disk(Protocol):
    """Be the only door to files; every failure is an OSError, unless the directory is lost."""

    def create(self, path: str) -> File:
        """Create an empty file that must not be there yet."""
        ...

    def open(self, path: str) -> File:
        """Open a file that is there."""
        ...

    def map(self, path: str) -> memoryview:
        """Return the bytes of a file that is never written again, read as they are needed."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Put a small file in place, whole and durable or not at all."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name; durable once its directory is synced."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a name; durable once its directory is synced."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def make_directories(self, path: str) -> None:
        """Create a directory and its parents durably, where missing."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory survive a crash."""
        ...


# There was no descriptor, or no memory, for a moment: nothing has happened to the disk.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_passing(error: OSError) -> bool:
    """Tell whether the same call may succeed soon, and nothing was lost by its failure."""
    return error.errno in _PASSING


TEMPORARY_SUFFIX = ".tmp"


def parent_of(path: str) -> str:
    """Return the directory that holds a path; the root is the empty string."""
    return path.rpartition("/")[0]


def checked(path: str) -> str:
    """Return the path after asserting that it stays below the root."""
    names = path.split("/") if path else []
    assert not any(name in ("", ".", "..") or "\0" in name for name in names), path
    return path
