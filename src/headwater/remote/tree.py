"""What the remote storage holds at a moment: files in folders, made of pieces of objects.

A *commit* is a numbered object that says how the tree changed and carries small pieces itself; the
state of the remote storage is the fold of its commits. A *base* is the whole tree after a commit,
so that readers need not begin with the first one. All of this is values to values.
"""

import json
import struct
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from headwater.errors import CorruptFileError, UnsupportedError
from headwater.rows.row_bytes import crc32c

VERSION = 1
CATALOG_FOLDER = ""
"""The folder of what belongs to no bucket: the catalog."""
_NUMBER_DIGITS = 20


@dataclass(frozen=True, slots=True)
class ObjectPiece:
    """Some bytes of an object."""

    key: str
    at: int
    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as pieces in order; the mark changes if its content is replaced, not if it grows."""

    mark: str
    pieces: tuple[ObjectPiece, ...]

    @property
    def size(self) -> int:
        """Return the length of the file."""
        return sum(each.size for each in self.pieces)


@dataclass(frozen=True, slots=True)
class FileChange:
    """The first pieces that a file keeps, and those behind them."""

    mark: str
    keeps: int
    pieces: tuple[ObjectPiece, ...]


@dataclass(frozen=True, slots=True)
class FolderEnds:
    """The offsets of a bucket, and the incarnation that wrote the row before its end."""

    start: int = 0
    end: int = 0
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class FolderChange:
    """How the files of a folder changed."""

    ends: FolderEnds
    files: Mapping[str, FileChange]
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCommit:
    """One step of the remote storage; of two with the same number only one can exist."""

    number: int
    epoch: int
    at_ms: int
    nonce: str
    """Drawn for each commit: tells a lost answer from the commit of another server."""
    storage_id: str
    owner: str = ""
    """The nonce of a server that takes ownership with this commit; empty for all others."""
    is_whole: bool = True
    """The tree is one moment of the storage; else files are on their way."""
    is_last: bool = False
    """The server stopped, and everything was there."""
    serial: int = 0
    """Which version of the catalog this is."""
    folders: Mapping[str, FolderChange] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()


@dataclass(slots=True)
class Folder:
    """The files of a folder by name."""

    ends: FolderEnds = FolderEnds()
    files: dict[str, RemoteFile] = field(default_factory=dict)


@dataclass(slots=True)
class Tree:
    """The fold of all commits up to one."""

    number: int = 0
    epoch: int = 0
    at_ms: int = 0
    storage_id: str = ""
    owner: str = ""
    is_whole: bool = False
    is_last: bool = False
    serial: int = 0
    whole_at_ms: int = 0
    """When the last whole commit was made."""
    rows_per_s: float = 0.0
    """How fast rows came between the last two whole commits."""
    folders: dict[str, Folder] = field(default_factory=dict)
    bases: list[tuple[int, int]] = field(default_factory=list)
    """Number and time of the bases that are kept."""
    dead: dict[str, int] = field(default_factory=dict)
    """Objects that no file needs any more, and since when."""
    swept: int = 0
    """All commits up to this number were looked at; what is left of them is dead or in use."""
    _uses: Counter[str] = field(default_factory=Counter)
    _rows: int = 0

    @property
    def rows(self) -> int:
        """Return how many rows were ever written to the buckets."""
        return sum(each.ends.end for each in self.folders.values())

    @property
    def size_bytes(self) -> int:
        """Return the length of all files."""
        return sum(file.size for each in self.folders.values() for file in each.files.values())

    def uses(self, key: str) -> bool:
        """Tell whether a file has a piece in an object."""
        return self._uses[key] > 0

    def objects(self) -> frozenset[str]:
        """Return the keys of all objects that files have pieces in."""
        return frozenset(key for key, count in self._uses.items() if count > 0)

    def apply(self, commit: RemoteCommit) -> None:
        """Go on to the next commit."""
        if commit.number != self.number + 1:
            raise CorruptFileError(f"Commit {commit.number} does not follow {self.number}.")
        if commit.epoch < self.epoch:
            raise CorruptFileError(f"Commit {commit.number} is of an earlier owner.")
        self.number, self.epoch, self.at_ms = commit.number, commit.epoch, commit.at_ms
        self.storage_id, self.is_last = commit.storage_id, commit.is_last
        self.owner = commit.owner or self.owner
        for name in commit.dropped:
            gone = self.folders.pop(name, None)
            self._release(() if gone is None else tuple(gone.files.values()))
        for name, change in commit.folders.items():
            self._change(self.folders.setdefault(name, Folder()), change)
        self.is_whole = commit.is_whole
        if commit.is_whole and not commit.owner:
            self._note_rate(commit)
            self.serial = commit.serial

    def _note_rate(self, commit: RemoteCommit) -> None:
        rows, seconds = self.rows, (commit.at_ms - self.whole_at_ms) / 1000
        if self.whole_at_ms and seconds > 0:
            self.rows_per_s = max(rows - self._rows, 0) / seconds
        self.whole_at_ms, self._rows = commit.at_ms, rows

    def _change(self, folder: Folder, change: FolderChange) -> None:
        folder.ends = change.ends
        released: list[RemoteFile] = []
        for name, new in change.files.items():
            before = folder.files.get(name, RemoteFile("", ()))
            if new.keeps > len(before.pieces):
                raise CorruptFileError(f"{name} keeps {new.keeps} of {len(before.pieces)} pieces.")
            file = RemoteFile(new.mark, (*before.pieces[: new.keeps], *new.pieces))
            self._hold(file)
            released.append(before)
            folder.files[name] = file
        released += [folder.files.pop(name) for name in change.gone if name in folder.files]
        self._release(released)

    def _hold(self, file: RemoteFile) -> None:
        for piece in file.pieces:
            self._uses[piece.key] += 1
            self.dead.pop(piece.key, None)

    def _release(self, files: Sequence[RemoteFile]) -> None:
        for piece in (piece for file in files for piece in file.pieces):
            self._uses[piece.key] -= 1
            if not self._uses[piece.key]:
                del self._uses[piece.key]
                self.dead[piece.key] = self.at_ms


# Keys of objects. Each begins with what it is; data is named by the attempt that wrote it, so that
# two servers never write the same object.


def commit_key(number: int) -> str:
    """Return the key of a commit."""
    return f"commits/{number:0{_NUMBER_DIGITS}d}"


def base_key(number: int) -> str:
    """Return the key of the tree after a commit."""
    return f"bases/{number:0{_NUMBER_DIGITS}d}"


def data_key(*, epoch: int, number: int, nonce: str, index: int) -> str:
    """Return the key of an object with bytes of files."""
    return f"data/{epoch}/{number}-{nonce}-{index}"


NEWEST = "newest-base"
"""The key of a hint: the number of the newest base."""

# Bytes of commits and bases: `magic | u32 length | head, JSON and deflated | u32 checksum | body`.

COMMIT_MAGIC, BASE_MAGIC = b"HWCOMMT1", b"HWBASE01"
_U32 = struct.Struct("<I")
_LEAD = len(COMMIT_MAGIC) + _U32.size
HEAD_GUESS_BYTES = 64 << 10


def encode_commit(commit: RemoteCommit, body: bytes) -> bytes:
    """Encode a commit; pieces of its own body have an empty key and begin at the body's start."""
    folders = {
        name: [
            [change.ends.start, change.ends.end, change.ends.incarnation],
            {name: [f.mark, f.keeps, _listed(f.pieces)] for name, f in change.files.items()},
            list(change.gone),
        ]
        for name, change in commit.folders.items()
    }
    return _enclosed(
        COMMIT_MAGIC,
        {
            "version": VERSION,
            "number": commit.number,
            "epoch": commit.epoch,
            "at_ms": commit.at_ms,
            "nonce": commit.nonce,
            "storage_id": commit.storage_id,
            "owner": commit.owner,
            "is_whole": commit.is_whole,
            "is_last": commit.is_last,
            "serial": commit.serial,
            "folders": folders,
            "dropped": list(commit.dropped),
        },
        body,
    )


def head_bytes(begin: bytes) -> int:
    """Return how many bytes of a commit come before its body."""
    if len(begin) < _LEAD or not begin.startswith((COMMIT_MAGIC, BASE_MAGIC)):
        raise CorruptFileError("An object is no commit or base of a remote storage.")
    (length,) = _U32.unpack_from(begin, len(COMMIT_MAGIC))
    return _LEAD + int(length) + _U32.size


def decode_commit(head: bytes) -> RemoteCommit:
    """Decode the head of a commit, or raise CorruptFileError."""
    document, body_at = _disclosed(COMMIT_MAGIC, head)
    try:
        own_key = commit_key(document["number"])
        folders = {
            name: FolderChange(
                FolderEnds(*ends),
                {
                    file: FileChange(mark, keeps, _pieces(pieces, own_key, body_at))
                    for file, (mark, keeps, pieces) in files.items()
                },
                tuple(gone),
            )
            for name, (ends, files, gone) in document["folders"].items()
        }
        rest = {
            name: document[name]
            for name in (
                *("number", "epoch", "at_ms", "nonce", "storage_id", "owner"),
                *("is_whole", "is_last", "serial"),
            )
        }
        return RemoteCommit(**rest, folders=folders, dropped=tuple(document["dropped"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"A commit cannot be read: {error!r}.") from error


def encode_base(tree: Tree) -> bytes:
    """Encode the whole tree."""
    folders = {
        name: [
            [folder.ends.start, folder.ends.end, folder.ends.incarnation],
            {name: [file.mark, _listed(file.pieces)] for name, file in folder.files.items()},
        ]
        for name, folder in tree.folders.items()
    }
    document = {name: getattr(tree, name) for name in _PLAIN_FIELDS}
    return _enclosed(
        BASE_MAGIC,
        {
            "version": VERSION,
            **document,
            "folders": folders,
            "bases": [list(each) for each in tree.bases],
            "dead": tree.dead,
            "rows_before": tree._rows,  # noqa: SLF001 - the codec of the class above
        },
        b"",
    )


def decode_base(content: bytes) -> Tree:
    """Decode a tree, or raise CorruptFileError."""
    document, _ = _disclosed(BASE_MAGIC, content)
    try:
        tree = Tree(**{name: document[name] for name in _PLAIN_FIELDS})
        for name, (ends, files) in document["folders"].items():
            folder = tree.folders[name] = Folder(FolderEnds(*ends))
            for file, (mark, pieces) in files.items():
                folder.files[file] = RemoteFile(mark, _pieces(pieces, "", 0))
                tree._hold(folder.files[file])  # noqa: SLF001 - the codec of the class above
        tree.bases = [(int(number), int(at_ms)) for number, at_ms in document["bases"]]
        tree.dead = {str(key): int(at_ms) for key, at_ms in document["dead"].items()}
        tree._rows = int(document["rows_before"])  # noqa: SLF001 - the codec of the class above
        return tree
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"A base cannot be read: {error!r}.") from error


_PLAIN_FIELDS = (
    *("number", "epoch", "at_ms", "storage_id", "owner", "is_whole", "is_last"),
    *("serial", "whole_at_ms", "rows_per_s", "swept"),
)
Document = dict[str, "Document | list[Document] | int | float | str | bool"]


def _listed(pieces: Sequence[ObjectPiece]) -> list[list[object]]:
    return [[each.key, each.at, each.size, each.crc] for each in pieces]


def _pieces(
    listed: Sequence[Sequence[object]], own_key: str, body_at: int
) -> tuple[ObjectPiece, ...]:
    """Read pieces; those without a key are in the object itself, behind its head."""
    found = []
    for key, at, size, crc in listed:
        if not all(isinstance(each, int) and each >= 0 for each in (at, size, crc)):
            raise ValueError("a piece has a place that is no number")
        place = cast("int", at)
        found.append(
            ObjectPiece(
                str(key) or own_key,
                place if key else place + body_at,
                cast("int", size),
                cast("int", crc),
            )
        )
    return tuple(found)


def _enclosed(magic: bytes, document: Mapping[str, object], body: bytes) -> bytes:
    head = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)
    lead = magic + _U32.pack(len(head)) + head
    return lead + _U32.pack(crc32c(lead)) + body


def _disclosed(magic: bytes, content: bytes) -> tuple[dict, int]:  # type: ignore[type-arg]  # JSON
    end = head_bytes(content)
    if not content.startswith(magic) or len(content) < end:
        raise CorruptFileError("A commit or base of a remote storage is cut off.")
    (crc,) = _U32.unpack_from(content, end - _U32.size)
    if crc32c(content[: end - _U32.size]) != crc:
        raise CorruptFileError("The checksum of a commit or base does not match.")
    try:
        document = json.loads(zlib.decompress(content[_LEAD : end - _U32.size]))
        version = int(document["version"])
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise CorruptFileError(f"A commit or base cannot be read: {error!r}.") from error
    if version > VERSION:
        raise UnsupportedError(
            f"The remote storage has version {version}, but this program reads {VERSION}.",
            hint="A newer version of Headwater wrote it; use that version.",
        )
    return document, end
