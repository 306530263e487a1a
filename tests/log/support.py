"""Batches, clocks and disks for tests of the log."""

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from headwater.log.log import Appended, Log
from headwater.log.retention import LogSettings
from headwater.rows.log_batch import build_batch, iterate
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, File, Part, parent_of
from headwater.store.memory import MemoryDisk

T = TypeVar("T")
DIRECTORY = "1/0"
SMALL = LogSettings(segment_bytes_max=600, index_interval_bytes=120)


class FixedClock:
    def __init__(self, now_ms: int = 1_000) -> None:
        self.milliseconds = now_ms

    def now_ms(self) -> int:
        return self.milliseconds

    def monotonic(self) -> float:
        return self.milliseconds / 1000

    async def sleep(self, seconds: float) -> None:
        self.milliseconds += round(seconds * 1000)


class InterposedDisk:
    """Pass everything on, calling `before` and `after` around each operation."""

    def __init__(
        self,
        disk: Disk,
        *,
        before: Callable[[str, str], None] = lambda operation, path: None,
        after: Callable[[str, str], None] = lambda operation, path: None,
    ) -> None:
        self.disk, self.before, self.after = disk, before, after

    def create(self, path: str) -> File:
        return InterposedFile(
            self, path, self.around("create", path, lambda: self.disk.create(path))
        )

    def open(self, path: str) -> File:
        return InterposedFile(self, path, self.around("open", path, lambda: self.disk.open(path)))

    def map(self, path: str) -> memoryview:
        return self.around("map", path, lambda: self.disk.map(path))

    def replace(self, path: str, content: bytes) -> None:
        """Replace step by step, so that each step can fail or be the last before a crash."""
        temporary = path + TEMPORARY_SUFFIX
        with suppress(FileNotFoundError):
            self.disk.unlink(temporary)
        file = self.create(temporary)
        file.append([content])
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(parent_of(path))

    def rename(self, source: str, target: str) -> None:
        self.around("rename", source, lambda: self.disk.rename(source, target))

    def unlink(self, path: str) -> None:
        self.around("unlink", path, lambda: self.disk.unlink(path))

    def listdir(self, path: str) -> list[str]:
        return self.around("listdir", path, lambda: self.disk.listdir(path))

    def make_directories(self, path: str) -> None:
        self.around("make_directories", path, lambda: self.disk.make_directories(path))

    def sync_directory(self, path: str) -> None:
        self.around("sync_directory", path, lambda: self.disk.sync_directory(path))

    def around(self, operation: str, path: str, act: Callable[[], T]) -> T:
        self.before(operation, path)
        result = act()
        self.after(operation, path)
        return result


class InterposedFile:
    def __init__(self, owner: InterposedDisk, path: str, file: File) -> None:
        self._owner, self._path, self._file = owner, path, file

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, parts: Sequence[Part]) -> None:
        self._owner.around("append", self._path, lambda: self._file.append(parts))

    def sync(self) -> None:
        self._owner.around("sync", self._path, self._file.sync)

    def read(self, position: int, length: int) -> bytes:
        return self._owner.around("read", self._path, lambda: self._file.read(position, length))

    def truncate(self, length: int) -> None:
        self._owner.around("truncate", self._path, lambda: self._file.truncate(length))


class Fault:
    """Fail the n-th operation, once or from there on."""

    def __init__(self, number: int, *, code: int = errno.EIO, for_good: bool = False) -> None:
        self.number, self.code, self.for_good = number, code, for_good
        self.count = 0
        self.failed: list[str] = []

    def __call__(self, operation: str, path: str) -> None:
        self.count += 1
        if self.count == self.number or (self.for_good and self.count > self.number):
            self.failed.append(operation)
            raise OSError(self.code, "injected", path)


def batch(text: str = "x", *, records: int = 1, writer_id: int = -1, sequence: int = -1) -> bytes:
    return build_batch(
        text.encode(), schema_id=1, record_count=records, writer_id=writer_id, sequence=sequence
    )


def open_log(disk: Disk, *, settings: LogSettings = SMALL, clock: FixedClock | None = None) -> Log:
    return Log.open(disk, DIRECTORY, settings=settings, clock=clock or FixedClock())


def append(log: Log, *texts: str, records: int = 1, timestamp_ms: int = 1_000) -> Appended:
    return log.append([batch(text, records=records) for text in texts], timestamp_ms=timestamp_ms)


def filled(disk: Disk, count: int = 20, *, settings: LogSettings = SMALL) -> Log:
    """Return a synced log that holds the messages "0", "1", … in several segments."""
    log = open_log(disk, settings=settings)
    for number in range(count):
        append(log, f"{number:032}", timestamp_ms=1_000 + number)
    log.sync()
    return log


def messages(log: Log, *, offset: int | None = None, up_to: int | None = None) -> dict[int, str]:
    """Return the message at each base offset."""
    position = log.start_offset if offset is None else offset
    end = log.end_offset if up_to is None else up_to
    found: dict[int, str] = {}
    while position < end:
        data = log.read(position, bytes_max=1_000, up_to=end)
        for header, at in iterate(data):
            found[header.base_offset] = bytes(data[at + 48 : at + header.size]).decode()
            position = header.end_offset
    return found


def path_of(name: str) -> str:
    return f"{DIRECTORY}/{name}"


def content(disk: MemoryDisk, name: str) -> bytes:
    file = disk.open(path_of(name))
    return file.read(0, file.size)


def overwrite(disk: MemoryDisk, name: str, data: bytes) -> None:
    disk.replace(path_of(name), data)


def flip(disk: MemoryDisk, name: str, position: int, bit: int = 0) -> None:
    data = bytearray(content(disk, name))
    data[position] ^= 1 << bit
    overwrite(disk, name, bytes(data))
