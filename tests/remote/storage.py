"""Files that grow and change like those of a storage, and what a remote storage says of them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.remote.plan import MomentFile, MomentFolder, RemoteCut
from headwater.remote.restore import fetch
from headwater.remote.tree import FolderEnds, Tree

Files = dict[tuple[str, str], bytes]


@dataclass
class Content:
    data: bytes

    def read(self, position: int, length: int) -> bytes:
        return self.data[position : position + length]


@dataclass
class FakeStorage:
    """A few folders with logs that grow and small files that are replaced."""

    chance: random.Random
    files: Files = field(default_factory=dict)
    marks: dict[tuple[str, str], str] = field(default_factory=dict)
    step: int = 0

    def change(self, *, bytes_max: int = 3000) -> None:
        """Write to some folders, roll and drop a log now and then."""
        self.step += 1
        for folder in self.chance.sample(["1/0", "1/1", "2/0"], self.chance.randint(1, 3)):
            log = (folder, f"{self.chance.randint(0, 2)}.log")
            grown = self.chance.randbytes(self.chance.randint(1, bytes_max))
            self.files[log] = self.files.get(log, b"") + grown
            self.replace(folder, "checkpoint")
        if self.chance.random() < 0.1:
            gone = self.chance.choice(sorted(self.files))
            del self.files[gone]
            self.marks.pop(gone, None)

    def replace(self, folder: str, name: str) -> None:
        self.files[folder, name] = self.chance.randbytes(50)
        self.marks[folder, name] = str(self.step)

    def cut(self, at_ms: int, *, dropped: tuple[str, ...] = ()) -> RemoteCut:
        folders: dict[str, dict[str, MomentFile]] = {}
        for (folder, name), data in self.files.items():
            file = MomentFile(len(data), self.marks.get((folder, name), ""))
            folders.setdefault(folder, {})[name] = file
        for folder in ("1/0", "1/1", "2/0"):
            folders.setdefault(folder, {})
        return RemoteCut(
            at_ms=at_ms,
            serial=self.step,
            folders={
                name: MomentFolder(FolderEnds(0, self.step), files)
                for name, files in folders.items()
            },
            dropped=dropped,
        )

    def open(self, folder: str, name: str) -> Content:
        return Content(self.files[folder, name])


def contents(objects, tree: Tree) -> Mapping[tuple[str, str], bytes]:
    """Read every file of a tree, checksums included."""
    return {
        (folder, name): b"".join(part for piece in file.pieces for part in fetch(objects, piece))
        for folder, held in tree.folders.items()
        for name, file in held.files.items()
    }
