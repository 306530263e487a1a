"""The disk of the server's machine: one in memory that can lose power at any operation."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from headwater.store.disk import TEMPORARY_SUFFIX, Part, parent_of
from headwater.store.memory import ChangeKind, DiskChange, Fate, MemoryDisk, MemoryFile

TORN = ("part", "zeros", "noise")


@dataclass(frozen=True, slots=True)
class SimFile:
    """A file that tells before it is changed, and after it is synced."""

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
        self.step()

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
        """Replace step by step, so that power can be lost in the middle of it."""
        temporary = path + TEMPORARY_SUFFIX
        with suppress(FileNotFoundError):
            self.inner.unlink(temporary)
        file = self.create(temporary)
        file.append([content])
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(parent_of(path))

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
            return word, _Drawn(chance, is_torn=word == "torn").fate


class _Drawn:
    """Draw for each change whether it is kept.

    Of the writes to one file the first few are kept, then one is torn or lost and so are those
    behind it. Where a later one survives an earlier one, a log cannot tell that from damage and
    says so; which is tested elsewhere.
    """

    def __init__(self, chance: random.Random, *, is_torn: bool) -> None:
        self._chance = chance
        self._is_torn = is_torn
        self._cut: set[str] = set()

    def fate(self, change: DiskChange) -> bytes | None:
        if change.kind not in (ChangeKind.WRITE, ChangeKind.TRUNCATE):
            return b"" if self._chance.random() < 0.5 else None
        if change.path in self._cut:
            return None
        word = self._chance.choice(("whole", "whole", "lost", *(TORN if self._is_torn else ())))
        if word != "whole":
            self._cut.add(change.path)
        return None if word == "lost" else self._torn(word, change.data)

    def _torn(self, word: str, data: bytes) -> bytes:
        kept = self._chance.randint(0, len(data))
        match word:
            case "whole":
                return data
            case "zeros":
                return data[:kept] + bytes(len(data) - kept)
            case "noise":
                return data[:kept] + self._chance.randbytes(len(data) - kept)
            case _:
                return data[:kept]
