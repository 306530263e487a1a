"""A disk in memory that can show what a crash would leave."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from headwater.store.disk import TEMPORARY_SUFFIX, Part, checked, parent_of


class ChangeKind(Enum):
    """The kind of a change that is not yet durable."""

    WRITE = "write"
    TRUNCATE = "truncate"
    CREATE = "create"
    RENAME = "rename"
    UNLINK = "unlink"


@dataclass(frozen=True, slots=True)
class DiskChange:
    """A change that a crash may lose; `data` holds the bytes of a write."""

    number: int
    kind: ChangeKind
    path: str
    data: bytes = b""
    position: int = 0
    source: str = ""


Fate = Callable[[DiskChange], bytes | None]
"""Decide which bytes of a change reach the disk; None loses the change."""


@dataclass(slots=True)
class _Content:
    """The bytes of a file as a reader sees them and as they were last synced."""

    current: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


@dataclass(frozen=True, slots=True)
class _Pending:
    change: DiskChange
    content: _Content | None


class MemoryFile:
    """An open file of a memory disk."""

    __slots__ = ("_content", "_disk", "_path")

    def __init__(self, disk: "MemoryDisk", path: str, content: _Content) -> None:
        self._disk = disk
        self._path = path
        self._content = content

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self._content.current)

    def append(self, parts: Sequence[Part]) -> None:
        """Write all parts at the end."""
        data = b"".join(parts)
        position = self.size
        self._content.current += data
        self._note(ChangeKind.WRITE, data=data, position=position)

    def sync(self) -> None:
        """Make everything written so far survive a crash."""
        self._content.durable = bytes(self._content.current)
        self._disk.forget(self._content)

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes at a position; fewer only where the file ends."""
        return bytes(self._content.current[position : position + length])

    def truncate(self, length: int) -> None:
        """Cut the file to a length."""
        del self._content.current[length:]
        self._note(ChangeKind.TRUNCATE, position=length)

    def _note(self, kind: ChangeKind, *, data: bytes = b"", position: int) -> None:
        self._disk.note(kind, self._path, content=self._content, data=data, position=position)


class MemoryDisk:
    """Files in memory, with the durable image and the changes that are not durable yet."""

    def __init__(self) -> None:
        self._names: dict[str, _Content] = {}
        self._durable_names: dict[str, _Content] = {}
        self._directories = {""}
        self._pending: list[_Pending] = []
        self._change_count = 0

    def create(self, path: str) -> MemoryFile:
        """Create an empty file; fails if it exists."""
        if path in self._names:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        return self._create(path)

    def open(self, path: str) -> MemoryFile:
        """Open an existing file."""
        return MemoryFile(self, path, self._content(path))

    def map(self, path: str) -> memoryview:
        """Map the bytes of a file that never changes again."""
        return memoryview(bytes(self._content(path).current))

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file atomically and durably."""
        file = self._create(path + TEMPORARY_SUFFIX)
        file.append([content])
        file.sync()
        self.rename(path + TEMPORARY_SUFFIX, path)
        self.sync_directory(parent_of(path))

    def rename(self, source: str, target: str) -> None:
        """Rename a file; durable once its directory is synced."""
        content = self._content(source)
        del self._names[source]
        self._names[checked(target)] = content
        self.note(ChangeKind.RENAME, target, content=content, source=source)

    def unlink(self, path: str) -> None:
        """Remove a name; durable once its directory is synced."""
        self._content(path)
        del self._names[path]
        self.note(ChangeKind.UNLINK, path, content=None)

    def listdir(self, path: str) -> list[str]:
        """List the names in a directory, sorted."""
        self._require_directory(path)
        inside = {*self._names, *self._directories} - {""}
        return sorted(name.rpartition("/")[2] for name in inside if parent_of(name) == path)

    def make_directories(self, path: str) -> None:
        """Create a directory and missing parents durably."""
        while checked(path):
            self._directories.add(path)
            path = parent_of(path)

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory survive a crash."""
        self._require_directory(path)
        for pending in self._pending:
            if _is_naming(pending.change) and parent_of(pending.change.path) == path:
                _rename_durably(self._durable_names, pending)
        self._pending = [
            pending
            for pending in self._pending
            if not (_is_naming(pending.change) and parent_of(pending.change.path) == path)
        ]

    def unsynced(self) -> tuple[DiskChange, ...]:
        """List the changes that a crash may lose, oldest first."""
        return tuple(pending.change for pending in self._pending)

    def crashed(self, fate: Fate) -> "MemoryDisk":
        """Simulate a crash: `fate` decides for each unsynced change what survives."""
        image = MemoryDisk()
        image._directories = set(self._directories)
        copies: dict[int, _Content] = {}
        names = dict(self._durable_names)
        for pending in self._pending:
            kept = fate(pending.change)
            if kept is None:
                continue
            if _is_naming(pending.change):
                _rename_durably(names, pending)
            elif pending.content is not None:
                _apply(_copy_of(pending.content, copies).current, pending.change, kept)
        image._names = {path: _copy_of(content, copies) for path, content in names.items()}
        for content in image._names.values():
            content.durable = bytes(content.current)
        image._durable_names = dict(image._names)
        return image

    def note(
        self,
        kind: ChangeKind,
        path: str,
        *,
        content: _Content | None,
        data: bytes = b"",
        position: int = 0,
        source: str = "",
    ) -> None:
        """Record a change that is not yet durable."""
        change = DiskChange(self._change_count, kind, path, data, position, source)
        self._change_count += 1
        self._pending.append(_Pending(change, content))

    def forget(self, content: _Content) -> None:
        """Mark the bytes of a file as durable."""
        self._pending = [
            pending
            for pending in self._pending
            if _is_naming(pending.change) or pending.content is not content
        ]

    def _create(self, path: str) -> MemoryFile:
        self._require_directory(parent_of(checked(path)))
        content = _Content()
        self._names[path] = content
        self.note(ChangeKind.CREATE, path, content=content)
        return MemoryFile(self, path, content)

    def _content(self, path: str) -> _Content:
        if checked(path) not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self._names[path]

    def _require_directory(self, path: str) -> None:
        if checked(path) not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)


def _is_naming(change: DiskChange) -> bool:
    return change.kind not in (ChangeKind.WRITE, ChangeKind.TRUNCATE)


def _rename_durably(names: dict[str, _Content], pending: _Pending) -> None:
    names.pop(pending.change.source, None)
    names.pop(pending.change.path, None)
    if pending.content is not None:
        names[pending.change.path] = pending.content


def _copy_of(content: _Content, copies: dict[int, _Content]) -> _Content:
    return copies.setdefault(id(content), _Content(bytearray(content.durable), content.durable))


def _apply(current: bytearray, change: DiskChange, kept: bytes) -> None:
    if change.kind is ChangeKind.TRUNCATE:
        del current[change.position :]
        return
    # A write lost before a later one leaves a hole of zeros.
    current.extend(bytes(max(change.position - len(current), 0)))
    current[change.position : change.position + len(kept)] = kept
