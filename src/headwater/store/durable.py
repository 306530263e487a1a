"""How bytes reach a disk for good, on the systems that Headwater runs on.

Linux has a call for each step. Other systems lack some of them, or give a call of the same name a
weaker meaning: on macOS `fsync` only hands the bytes to the drive, which may keep them in a cache
that does not survive a power loss, and `F_FULLFSYNC` is what empties that cache. Every write that
has to survive a crash goes through here, so that no caller has to know.
"""

import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from headwater.store.disk import Part

PARTS_PER_WRITE_MAX = 1024  # the kernel's IOV_MAX
# File systems over a network have no cache of a drive to empty, and refuse.
_NO_FULL_SYNC = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
_full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_plain_sync = getattr(os, "fdatasync", os.fsync)


def sync_data(descriptor: int) -> None:
    """Make the bytes of a file survive a power loss, without the metadata that no reader needs."""
    if _full_sync is None or not _synced_fully(descriptor, _full_sync):
        _plain_sync(descriptor)


def sync_all(descriptor: int) -> None:
    """Make a file, or the names in a directory, survive a power loss."""
    if _full_sync is None or not _synced_fully(descriptor, _full_sync):
        os.fsync(descriptor)


def sync_path(path: str | Path) -> None:
    """Make a file, or the names in a directory, survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)


def forget_cached(descriptor: int) -> None:
    """Have the next reader see what the disk holds, where the system can be asked for that."""
    advise = getattr(os, "posix_fadvise", None)
    if advise is not None:
        with suppress(OSError):  # only advice, and something has failed already
            advise(descriptor, 0, 0, getattr(os, "POSIX_FADV_DONTNEED", 4))


def write_parts(descriptor: int, parts: Sequence[Part], position: int) -> int:
    """Write the parts, in one call where the system takes them, and return the end."""
    rest = parts
    while rest:
        some = rest[:PARTS_PER_WRITE_MAX]
        written = _write_some(descriptor, some, position)
        position += written
        rest = _after(rest, written)
    return position


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
    # Joined, since a log that is written in many calls can tear in many places.
    return os.pwrite(descriptor, b"".join(parts), position)


def _after(parts: Sequence[Part], written: int) -> Sequence[Part]:
    """Return what is left of the parts behind the written bytes."""
    for index, part in enumerate(parts):
        if written < len(part):
            return [memoryview(part)[written:], *parts[index + 1 :]]
        written -= len(part)
    return []
