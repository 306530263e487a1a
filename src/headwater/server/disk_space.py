"""How much room the disk has, and refusing rows before there is none left."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from headwater.errors import RetryLaterError, StorageError
from headwater.runtime.events import Events

LOOK_INTERVAL_S = 0.25
# What a start writes at the least, and some more.
STARTING_BYTES = 1 << 20
# Set aside in a file for as long as the disk has less than this.
RESERVE_NAME = "RESERVE"
RESERVE_BYTES = 2 * STARTING_BYTES
RESERVED_BELOW = 1 << 30
_events = Events("disk")


class Timer(Protocol):
    """Tell the time on a clock that never goes back."""

    def monotonic(self) -> float:
        """Return seconds."""
        ...


def free_bytes(directory: Path) -> int:
    """Return how much this process may still write to the disk of a directory."""
    state = os.statvfs(directory)
    return state.f_bavail * state.f_frsize


def unwritable(directory: Path) -> str:
    """Return why nothing can be written to a directory; empty if it can."""
    try:
        if os.statvfs(directory).f_flag & os.ST_RDONLY:
            return "its file system is mounted read-only"
        if not os.access(directory, os.W_OK):
            return "this user may not write there"
        free = free_bytes(directory)
    except OSError as error:
        return f"it cannot be looked at: {error}"
    return f"its disk is full, with {free} bytes free" if free < STARTING_BYTES else ""


def keep_reserve(directory: Path) -> None:
    """Set some space aside once a disk gets full, for what has to be written to free more."""
    reserve = directory / RESERVE_NAME
    if 4 * RESERVE_BYTES < free_bytes(directory) < RESERVED_BELOW and not reserve.exists():
        reserve.write_bytes(bytes(RESERVE_BYTES))


def give_reserve(directory: Path) -> None:
    """Give that space back where there is no other: a table can be dropped with it."""
    with suppress(OSError):
        if free_bytes(directory) < STARTING_BYTES:
            (directory / RESERVE_NAME).unlink()
            _events.error("disk full: the space that was set aside is given back")


class DiskSpace:
    """Keep the last of a disk for what makes room on it.

    Deleting rows takes a new checkpoint first, dropping a table a change of the catalog: on a
    disk that rows have filled to the last byte, neither could be done.
    """

    def __init__(
        self,
        directory: Path,
        *,
        free_bytes_min: int,
        clock: Timer,
        look: Callable[[Path], int] = free_bytes,
        read_only: str = "",
    ) -> None:
        self.read_only = read_only
        self._directory = directory
        self._free_bytes_min = free_bytes_min
        self._clock = clock
        self._look = look
        self._looked_at: float | None = None
        self._free_bytes: int | None = None
        self._is_full = False

    def free_now(self) -> int | None:
        """Return how many bytes are free at this moment; None if nobody can tell."""
        try:
            return self._look(self._directory)
        except OSError:
            return None

    def keep_reserve(self) -> None:
        """Set some space aside once the disk gets full."""
        keep_reserve(self._directory)

    def is_full_now(self) -> bool:
        """Tell whether the disk takes no more rows at this moment."""
        free = self.free_now()
        return free is not None and free < self._free_bytes_min

    def refuse_if_full(self) -> None:
        """Raise if the disk is so full that it takes no more rows, or is only read."""
        if self.read_only:
            raise StorageError(
                f"The storage was opened read-only: {self.read_only}.",
                hint="Make the disk writable or free space on it, then restart the server.",
            )
        if self._free_bytes_min and self._is_due():
            self._look_again()
        if self._is_full:
            # Not with the code that Apache Fluss has for it by now: older clients would not retry.
            raise RetryLaterError(
                f"The disk of the server is full: {self._free_bytes} bytes are free, and below"
                f" {self._free_bytes_min} it takes no more rows.",
                hint="Free space on the server; writers try again by themselves.",
            )

    def _is_due(self) -> bool:
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < LOOK_INTERVAL_S:
            return False
        self._looked_at = now
        return True

    def _look_again(self) -> None:
        try:
            self._free_bytes = self._look(self._directory)
        except OSError:
            return  # The write itself shows what is wrong.
        was_full, self._is_full = self._is_full, self._free_bytes < self._free_bytes_min
        if self._is_full and not was_full:
            _events.error("disk full", free=self._free_bytes, wanted=self._free_bytes_min)
        elif was_full and not self._is_full:
            _events.info("disk no longer full", free=self._free_bytes)
