"""The steps of a repair: none of them deletes bytes, and a crash between two leaves a log."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from headwater.audit.files.stream import CHUNK_BYTES
from headwater.store.disk import TEMPORARY_SUFFIX, Disk, parent_of


@dataclass(frozen=True, slots=True)
class Rename:
    """Give a file or directory another name."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"rename {self.source} to {_name(self.target)}"


@dataclass(frozen=True, slots=True)
class Copy:
    """Keep the bytes of a file, from a position on, in another file."""

    source: str
    target: str
    position: int = 0

    def __str__(self) -> str:
        what = (
            f"the bytes from {self.position} on of {self.source}" if self.position else self.source
        )
        return f"copy {what} to {_name(self.target)}"


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut a file whose end was copied before."""

    path: str
    position: int

    def __str__(self) -> str:
        return f"cut {self.path} at byte {self.position}"


@dataclass(frozen=True, slots=True)
class Write:
    """Put a small file in place of what was copied before."""

    path: str
    content: bytes

    def __str__(self) -> str:
        return f"write {self.path} anew" if self.content else f"make an empty {self.path}"


Step = Rename | Copy | Truncate | Write


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """Hold the steps of a repair, what they lead to, and what to be aware of."""

    steps: tuple[Step, ...]
    outcome: str
    warnings: tuple[str, ...] = ()


def carry_out(disk: Disk, steps: Iterable[Step]) -> None:
    """Do the steps in their order, each durable before the next."""
    for step in steps:
        _do(disk, step)


def _do(disk: Disk, step: Step) -> None:
    match step:
        case Rename(source, target):
            disk.rename(source, target)
            disk.sync_directory(parent_of(target))
        case Copy(source, target, position):
            _copy(disk, source, target, position)
        case Truncate(path, position):
            file = disk.open(path)
            file.truncate(position)
            file.sync()
        case Write(path, content):
            disk.replace(path, content)
        case _:
            assert_never(step)


def _copy(disk: Disk, source: str, target: str, position: int) -> None:
    draft = target + TEMPORARY_SUFFIX
    with suppress(FileNotFoundError):
        disk.unlink(draft)
    file, copy = disk.open(source), disk.create(draft)
    while chunk := file.read(position, CHUNK_BYTES):
        copy.append([chunk])
        position += len(chunk)
    copy.sync()
    disk.rename(draft, target)
    disk.sync_directory(parent_of(target))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
