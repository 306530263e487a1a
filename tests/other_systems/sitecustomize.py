"""Make this Python look like one on macOS, in so far as Headwater can see the difference.

Python loads a module of this name at its start, in every process that has this folder on its path:
servers and workers that a test starts as well. What only Linux has is taken away; a sync that
reaches the drive is there under the name that macOS has for it, and one that does not is refused.
"""

import fcntl
import mmap
import os
import socket
import sys

ONLY_LINUX = {
    os: (
        *("fdatasync", "posix_fadvise", "posix_fallocate", "pwritev", "preadv", "pidfd_open"),
        *("sched_getaffinity", "copy_file_range", "memfd_create", "eventfd", "O_TMPFILE"),
        *("POSIX_FADV_DONTNEED", "O_DIRECT", "splice"),
    ),
    socket: ("TCP_QUICKACK", "TCP_KEEPIDLE", "TCP_USER_TIMEOUT", "SO_PEERCRED"),
    mmap: ("MAP_POPULATE", "MADV_DONTFORK", "MADV_HUGEPAGE"),
}
F_FULLFSYNC = 51
TCP_KEEPALIVE = 4  # Linux has the same meaning under this number: the seconds of silence

_fsync, _fcntl = os.fsync, fcntl.fcntl


def _full(descriptor: int, command: int, *arguments: object) -> object:
    if command != F_FULLFSYNC:
        return _fcntl(descriptor, command, *arguments)
    _fsync(descriptor)
    return 0


def _half(descriptor: int) -> None:
    caller = sys._getframe(1).f_globals.get("__name__", "")
    if caller.startswith("headwater"):
        raise AssertionError(f"{caller} uses a sync that leaves bytes in the drive")
    _fsync(descriptor)


for module, names in ONLY_LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
fcntl.F_FULLFSYNC, fcntl.fcntl = F_FULLFSYNC, _full  # type: ignore[attr-defined]
os.fsync = _half
socket.TCP_KEEPALIVE = TCP_KEEPALIVE  # type: ignore[attr-defined]
