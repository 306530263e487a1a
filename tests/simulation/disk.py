"""The disk of the server's machine: one in memory that can lose power at any operation."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.store.disk import Part
from headwater.store.memory import Change, ChangeKind, Fate, MemoryDisk, MemoryFile


@dataclass(frozen=True, slots=True)
class SimFile:
    """A file that tells before it is changed."""

    inner: MemoryFile
    step: Callable[[], None]

    @property
    def size(self) -> int:
        return self.inner.size

    def append(self, parts: Sequence[Part]) -> None:
        self.step()
        self.inner.append(parts)

    def sync(self) -> None:
        self.step()
        self.inner.sync()

    def read(self, position: int, length: int) -> bytes:
        return self.inner.read(position, length)

    def truncate(self, length: int) -> None:
        self.step()
        self.inner.truncate(length)


class SimDisk:
    """Keep files in memory; `on_step` is called before every change of them."""

    def __init__(self, inner: MemoryDisk, on_step: Callable[[], None]) -> None:
        self.inner = inner
        self._step = on_step

    def create(self, path: str) -> SimFile:
        self._step()
        return SimFile(self.inner.create(path), self._step)

    def open(self, path: str) -> SimFile:
        return SimFile(self.inner.open(path), self._step)

    def map(self, path: str) -> memoryview:
        return self.inner.map(path)

    def replace(self, path: str, content: bytes) -> None:
        self._step()
        self.inner.replace(path, content)

    def rename(self, source: str, target: str) -> None:
        self._step()
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        self._step()
        self.inner.unlink(path)

    def listdir(self, path: str) -> list[str]:
        return self.inner.listdir(path)

    def make_directories(self, path: str) -> None:
        self._step()
        self.inner.make_directories(path)

    def sync_directory(self, path: str) -> None:
        self._step()
        self.inner.sync_directory(path)


def fate(chance: random.Random) -> tuple[str, Fate]:
    """Draw what a loss of power does to what was not synced, with a word for it."""
    word = chance.choice(("lost", "kept", "any", "any", "torn"))
    match word:
        case "lost":
            return word, lambda _: None
        case "kept":
            return word, lambda change: change.data
        case _:
            return word, lambda change: _drawn(change, chance, torn=word == "torn")


def _drawn(change: Change, chance: random.Random, *, torn: bool) -> bytes | None:
    if change.kind is not ChangeKind.WRITE:
        return b"" if chance.random() < 0.5 else None
    size = len(change.data)
    match chance.choice(("part", "zeros", "noise") if torn else ("lost", "whole", "part")):
        case "lost":
            return None
        case "whole":
            return change.data
        case "part":
            return change.data[: chance.randint(0, size)]
        case "zeros":
            return bytes(size)
        case _:
            kept = chance.randint(0, size)
            return change.data[:kept] + chance.randbytes(size - kept)
