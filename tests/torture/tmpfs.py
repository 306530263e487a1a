"""A disk so small that it can be filled, and freed again, in a moment."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK_BYTES = 64 * 1024


class SmallDisk:
    """Hold a file system of memory, and a file that takes all that is left of it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._ballast = place / "ballast"

    def fill(self, *, but_bytes: int = 0) -> None:
        """Take all space that is left, but some."""
        with self._ballast.open("ab", buffering=0) as file:
            while self.free_bytes > but_bytes:
                wanted = min(BLOCK_BYTES, self.free_bytes - but_bytes)
                try:
                    file.write(bytes(wanted))
                except OSError:
                    return  # others were faster

    def free(self) -> None:
        """Give it all back."""
        self._ballast.unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        state = os.statvfs(self.place)
        return state.f_bavail * state.f_frsize


@contextmanager
def small_disk(place: Path, *, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount a disk for the length of a block."""
    place.mkdir(parents=True)
    size = f"size={mebibytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "headwater", str(place)], check=True)
    try:
        yield SmallDisk(place)
    finally:
        # Whoever was killed a moment ago may still hold it.
        subprocess.run(["umount", "-l", str(place)], check=True)
