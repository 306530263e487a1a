"""The states in which a crash can leave a disk, each taken once, with what was promised then."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b

from headwater.store.memory import DiskChange, MemoryDisk
from tests.crashes.fates import fates
from tests.crashes.workload import Promise
from tests.log.support import InterposedDisk

STATE = "kv"
READING = ("read", "open", "map", "listdir")


@dataclass(frozen=True, slots=True)
class Image:
    """Hold the files of one bucket after a crash, and what its users had been told by then."""

    at: str
    files: dict[str, bytes]
    label: str
    acked_end: int
    start_offsets: frozenset[int]

    def disk(self) -> MemoryDisk:
        """Return a disk that holds the files."""
        return disk_of(self.files, self.at)


class Recorder:
    """Take images of a bucket after every operation on it."""

    def __init__(self, memory: MemoryDisk) -> None:
        self.memory = memory
        self.disk = InterposedDisk(memory, after=self.observe)
        self.promises: dict[str, Promise] = {}
        self.images: list[Image] = []
        self.image_count = 0
        self._seen: set[tuple[str, bytes, int, int]] = set()

    def observe(self, operation: str, path: str) -> None:
        """Take images after an operation."""
        if operation not in READING and (at := bucket_of(path)) in self.promises:
            self.take(at, f"{operation} {path}")

    def take(self, at: str, what: str) -> None:
        """Take every image of one bucket as it is now."""
        promise = copy(self.promises[at])
        changes = tuple(each for each in self.memory.unsynced() if is_in(each, at))
        for label, fate in fates(changes):
            self.image_count += 1
            files = files_in(self.memory.crashed(fate), at)
            starts = frozenset(promise.start_offsets)
            key = (at, digest(files), promise.acked_end, len(starts))
            if key not in self._seen:
                self._seen.add(key)
                where = f"{len(self.images)}: {what}, {label}"
                self.images.append(Image(at, files, where, promise.acked_end, starts))


def bucket_of(path: str) -> str:
    """Return the directory of the bucket to which a path belongs."""
    names = path.split("/")
    size = 3 if len(names) > 1 and names[1].startswith("p") else 2
    return "/".join(names[:size])


def is_in(change: DiskChange, at: str) -> bool:
    return change.path.startswith(f"{at}/")


def files_in(disk: MemoryDisk, at: str) -> dict[str, bytes]:
    """Return the files of a bucket."""
    return dict(_walk(disk, at))


def _walk(disk: MemoryDisk, directory: str) -> Iterator[tuple[str, bytes]]:
    try:
        names = disk.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        path = f"{directory}/{name}"
        try:
            file = disk.open(path)
        except FileNotFoundError:
            yield from _walk(disk, path)
        else:
            yield path, file.read(0, file.size)


def digest(files: dict[str, bytes]) -> bytes:
    """Return what tells files apart from others."""
    summed = blake2b(digest_size=16)
    for path, content in sorted(files.items()):
        summed.update(f"{path}:{len(content)}:".encode() + content)
    return summed.digest()


def disk_of(files: dict[str, bytes], *directories: str) -> MemoryDisk:
    """Return a disk that holds files."""
    disk = MemoryDisk()
    for directory in directories:
        disk.make_directories(directory)
    for path, content in files.items():
        directory = path.rpartition("/")[0]
        disk.make_directories(directory)
        file = disk.create(path)
        file.append([content])
        file.sync()
        disk.sync_directory(directory)
    return disk
