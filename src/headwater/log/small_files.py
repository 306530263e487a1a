"""Load what is kept beside the segments of a bucket, or do without."""

from collections.abc import Sequence

from headwater.errors import CorruptFileError
from headwater.log.checkpoint import Checkpoint, decode_checkpoint
from headwater.log.index import decode_index
from headwater.log.mark import Mark
from headwater.log.names import CHECKPOINT, index_name
from headwater.store.disk import Disk


class SmallFiles:
    """Read checkpoint and indexes; a bad one counts as missing and is noted in `repairs`."""

    def __init__(self, disk: Disk, directory: str, names: Sequence[str]) -> None:
        self.repairs: list[str] = []
        self._disk = disk
        self._directory = directory
        self._names = names

    def checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint, unless it is missing or bad."""
        content = self._read(CHECKPOINT)
        try:
            return None if content is None else decode_checkpoint(content)
        except CorruptFileError as error:
            self.repairs.append(f"{CHECKPOINT}: rebuilt, because: {error}")
            return None

    def index(self, base_offset: int) -> tuple[Mark, ...]:
        """Return the marks of an index, or nothing if it is missing, bad or another's."""
        content = self._read(index_name(base_offset))
        try:
            marks = () if content is None else decode_index(content)
        except CorruptFileError as error:
            self.repairs.append(f"{index_name(base_offset)}: rebuilt, because: {error}")
            return ()
        return marks if marks and marks[0].offset == base_offset else ()

    def _read(self, name: str) -> bytes | None:
        if name not in self._names:
            return None
        file = self._disk.open(f"{self._directory}/{name}")
        return file.read(0, file.size)
