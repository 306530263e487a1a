"""The checkpoint and the indexes of a bucket, as far as they can be read."""

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from headwater.audit.files.bucket_notes import BucketNotes
from headwater.audit.finding import Check
from headwater.errors import CorruptFileError
from headwater.log.checkpoint import Checkpoint, decode_checkpoint
from headwater.log.index import decode_index
from headwater.log.mark import Mark
from headwater.log.names import CHECKPOINT, index_name
from headwater.store.disk import Disk

T = TypeVar("T")
REBUILD_INDEX = "--rebuild-index"


class SmallFiles:
    """Read what is kept beside the segments of a bucket, and note what is bad of it."""

    def __init__(
        self, disk: Disk, directory: str, names: Sequence[str], *, notes: BucketNotes
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._names = frozenset(names)
        self._notes = notes

    def checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint, or None if it is missing or bad."""
        return self._read(CHECKPOINT, decode_checkpoint)

    def index(self, base_offset: int) -> tuple[Mark, ...]:
        """Return the marks of a segment's index, or nothing if it is missing or bad."""
        name = index_name(base_offset)
        marks = self._read(name, decode_index) or ()
        if marks and (marks[0].offset, marks[0].position) != (base_offset, 0):
            self._bad(name, f"It begins at offset {marks[0].offset}.")
            return ()
        return marks

    def _read(self, name: str, decode: Callable[[bytes], T]) -> T | None:
        if name not in self._names:
            return None
        try:
            file = self._disk.open(f"{self._directory}/{name}")
            content = file.read(0, file.size)
            self._notes.tally.add(Check.FILES, 1, unit="files")
            return decode(content)
        except (CorruptFileError, struct.error, OSError) as fault:
            self._bad(name, str(fault))
            return None

    def _bad(self, name: str, reason: str) -> None:
        self._notes.error(
            Check.CHECKSUMS,
            f"{self._directory}/{name} is damaged: {reason}",
            remedy="The next start does without it and reads the segments instead; to set it"
            f" aside now: {self._notes.repair(REBUILD_INDEX)}",
        )
