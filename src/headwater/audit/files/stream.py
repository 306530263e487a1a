"""Bytes of a file, read in chunks from anywhere, with only one chunk in memory."""

from headwater.store.disk import File

CHUNK_BYTES = 4 << 20


class Stream:
    """Read ranges of a file that lie mostly behind each other."""

    __slots__ = ("_chunk", "_file", "_start", "size")

    def __init__(self, file: File) -> None:
        self._file = file
        self._chunk = b""
        self._start = 0
        self.size = file.size

    def read(self, position: int, length: int) -> memoryview:
        """Return the bytes of a range; fewer only where the file ends."""
        length = min(length, max(self.size - position, 0))
        at = position - self._start
        if at < 0 or at + length > len(self._chunk):
            wanted = min(max(length, CHUNK_BYTES), self.size - position)
            self._chunk, self._start, at = self._file.read(position, wanted), position, 0
        return memoryview(self._chunk)[at : at + length]
