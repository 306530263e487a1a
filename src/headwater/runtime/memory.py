"""How much memory this process may use, and how much it uses.

In a container the machine's memory is not the limit: the kernel kills a process that uses more than
its control group allows. Both versions of control groups are read, from the group of the process up
to the root, since any of them may set the lowest limit.
"""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

_PROC = "proc"
_GROUPS = Path("sys/fs/cgroup")
_V1, _V2 = "memory", ""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_MMAP_BYTES, _ARENAS = 256 * 1024, 2


def memory_there_is(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process may use, or None if unknown."""
    found = [*_group_limits(root), *_physical(root)]
    return min(found, default=None)


def anonymous_bytes(root: Path = Path("/")) -> int:
    """Return the memory of this process that the kernel cannot reclaim; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):
        resident, shared = (root / _PROC / "self" / "statm").read_text().split()[1:3]
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    return 0


def give_back_early() -> None:
    """Make the C library return large buffers at once: slower, but nothing is cached."""
    with suppress(OSError, AttributeError):
        if sys.platform == "linux":
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
            library.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Make the allocators return their caches to the system."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)


def _group_limits(root: Path) -> list[int]:
    lines = _text(root / _PROC / "self" / "cgroup").splitlines()
    limits = []
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == _V2:
            places = (root / _GROUPS, root / _GROUPS / "unified")
            limits += [each for place in places for each in _up(place, path, "memory.max")]
        elif _V1 in controllers.split(","):
            limits += _up(root / _GROUPS / _V1, path, "memory.limit_in_bytes")
    return limits


def _up(place: Path, path: str, name: str) -> list[int]:
    """Return the limits of a group and its parents; a container sees its own group as the root."""
    parts = [part for part in path.split("/") if part and part != ".."]
    groups = [place.joinpath(*parts[:count]) for count in range(len(parts), -1, -1)]
    return [int(text) for group in groups if (text := _text(group / name).strip()).isdigit()]


def _physical(root: Path) -> list[int]:
    for line in _text(root / _PROC / "meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return [int(line.split()[1]) * 1024]
    with suppress(ValueError, OSError, AttributeError):
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
