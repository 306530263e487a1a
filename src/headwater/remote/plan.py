"""What is to be shipped: the files of a storage at one moment against the tree of the remote.

A log grows by small pieces, and a file of thousands of them would take as many requests to read.
So pieces are folded: sixteen that are alike in size are shipped once more as one, until they are
large. Each byte is shipped a few times at the most, and a file has a few dozen pieces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.remote.tree import Folder, FolderEnds, ObjectPiece, Tree

FOLD_COUNT = 16
FOLD_BYTES_MAX = 4 << 20
_LEVEL_BITS = 4


@dataclass(frozen=True, slots=True)
class MomentFile:
    """A file as of the moment: its length, and a mark that another content would not have."""

    size: int
    mark: str = ""
    identity: object = None
    """The same object as long as the file only grows; None if the mark says it all."""


@dataclass(frozen=True, slots=True)
class MomentFolder:
    """The files of a bucket as of the moment."""

    ends: FolderEnds
    files: Mapping[str, MomentFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCut:
    """One moment of a storage: the folders that changed since the last, and those dropped."""

    at_ms: int
    serial: int
    folders: Mapping[str, MomentFolder]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """Bytes of a file that are to follow the pieces that it keeps."""

    folder: str
    name: str
    mark: str
    keeps: int
    start: int
    end: int
    identity: object = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Return how many bytes are shipped."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ShippingPlan:
    """What to ship, in order, and which files are gone from each folder."""

    shipments: tuple[Shipment, ...]
    gone: Mapping[str, tuple[str, ...]]


def plan_shipping(cut: RemoteCut, tree: Tree) -> ShippingPlan:
    """Compare a moment with the tree."""
    shipments: list[Shipment] = []
    gone: dict[str, tuple[str, ...]] = {}
    for name, local in cut.folders.items():
        remote = tree.folders.get(name, Folder())
        for file_name, file in local.files.items():
            shipment = _shipment(name, file_name, file, remote)
            if shipment is not None:
                shipments.append(shipment)
        gone[name] = tuple(each for each in remote.files if each not in local.files)
    return ShippingPlan(tuple(shipments), gone)


def _shipment(folder: str, name: str, file: MomentFile, remote: Folder) -> Shipment | None:
    held = remote.files.get(name)
    keeps, start = 0, 0
    if held is not None and held.mark == file.mark and held.size <= file.size:
        if held.size == file.size:
            return None
        keeps = pieces_kept(held.pieces, file.size - held.size)
        start = sum(each.size for each in held.pieces[:keeps])
    return Shipment(
        folder=folder,
        name=name,
        mark=file.mark,
        keeps=keeps,
        start=start,
        end=file.size,
        identity=file.identity,
    )


def pieces_kept(pieces: Sequence[ObjectPiece], size: int) -> int:
    """Return how many pieces stay as they are when a piece of some size follows."""
    kept = len(pieces)
    counts: dict[int, int] = {}
    counts[_level(size)] = 1
    highest = _level(size)
    for index in range(len(pieces) - 1, -1, -1):
        if pieces[index].size >= FOLD_BYTES_MAX:
            break
        level = _level(pieces[index].size)
        counts[level] = counts.get(level, 0) + 1
        highest = max(highest, level)
        if level == highest and counts[level] >= FOLD_COUNT:
            kept = index
    return kept


def _level(size: int) -> int:
    return size.bit_length() // _LEVEL_BITS
