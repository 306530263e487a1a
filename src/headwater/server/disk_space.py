"""Free disk space: measuring it, and rejecting rows before there is none left."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from headwater.errors import RetryLaterError, StorageError
from headwater.runtime.events import Events

LOOK_INTERVAL_S = 0.25
# What a start writes at least, and some more.
STARTING_BYTES = 1 << 20
# Reserved in a file once the disk has less free than this.
RESERVE_NAME = "RESERVE"
RESERVE_BYTES = 2 * STARTING_BYTES
RESERVED_BELOW = 1 << 30
_events = Events("disk")


class Timer(Protocol):
    """A clock that never goes back."""

    def monotonic(self) -> float:
        """Read the clock in seconds."""
        ...


def free_bytes(directory: Path) -> int:
    """Measure how much this process may still write to the disk of a directory."""
    state = os.statvfs(directory)
    return state.f_bavail * state.f_frsize


def unwritable(directory: Path) -> str:
    """Explain why nothing can be written to a directory; empty if it can."""
    try:
        if os.statvfs(directory).f_flag & os.ST_RDONLY:
            return "its file system is mounted read-only"
        if not os.access(directory, os.W_OK):
            return "this user cannot write there"
        free = free_bytes(directory)
    except OSError as error:
        return f"it cannot be checked: {error}"
    return f"its disk is full, with {free} bytes free" if free < STARTING_BYTES else ""


def keep_reserve(directory: Path) -> None:
    """Reserve some space once a disk gets full, for what has to be written to free more."""
    reserve = directory / RESERVE_NAME
    if 4 * RESERVE_BYTES < free_bytes(directory) < RESERVED_BELOW and not reserve.exists():
        reserve.write_bytes(bytes(RESERVE_BYTES))


def give_reserve(directory: Path) -> None:
    """Release the reserve if no other space is left: a table can be dropped with it."""
    with suppress(OSError):
        if free_bytes(directory) < STARTING_BYTES:
            (directory / RESERVE_NAME).unlink()
            _events.error("disk full: released the reserved space")


class DiskSpace:
    """Keep the last space of a disk for what frees more.

    Deleting rows first writes a checkpoint, dropping a table changes the catalog: on a disk that
    rows have filled to the last byte, neither would be possible.
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
        """Measure how many bytes are free now; None if unknown."""
        try:
            return self._look(self._directory)
        except OSError:
            return None

    def keep_reserve(self) -> None:
        """Reserve some space once the disk gets full."""
        keep_reserve(self._directory)

    def is_full_now(self) -> bool:
        """Tell whether the disk is too full for rows now."""
        free = self.free_now()
        return free is not None and free < self._free_bytes_min

    def refuse_if_full(self) -> None:
        """Raise if the disk is too full for rows, or read-only."""
        if self.read_only:
            raise StorageError(
                f"The storage was opened read-only: {self.read_only}.",
                hint="Make the disk writable or free space on it, then restart the server.",
            )
        if self._free_bytes_min and self._is_due():
            self._look_again()
        if self._is_full:
            # Not Apache Fluss's own code for this: older clients would not retry.
            raise RetryLaterError(
                f"The server's disk is full: {self._free_bytes} bytes are free, and below "
                f"{self._free_bytes_min} it rejects writes.",
                hint="Free space on the server; writers retry by themselves.",
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
