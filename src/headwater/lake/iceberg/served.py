"""Files that doors serve beside lake tables: no snapshot names them, and no catalog knows them.

A door writes what the lake does not hold yet into a folder of its own, below a folder with a
reserved name inside the place of a lake table. A marker in it tells how long its files are lent,
and is renewed as long as the door runs. A folder whose marker is older than that was left over by
a door that was killed, and may be removed by anybody.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pyiceberg.io import FileIO

from headwater.errors import InvalidTableError
from headwater.lake.iceberg.files import ListedFile, listed, new_id, remove, remove_all
from headwater.lake.spi import Cleaned
from headwater.model.type_json import document_of, int_of, object_of

TAILS_FOLDER = ".headwater-tails"
MARKER = "door.json"
LEASE_S = 900.0
"""How long files stay for those who were told of them, unless the door says otherwise."""
_MS = 1000


def tails_root(location: str) -> str:
    """Return where doors keep their folders inside a place."""
    return f"{location.rstrip('/')}/{TAILS_FOLDER}"


def is_served(location: str) -> bool:
    """Tell whether a file belongs to a door, so that it is no orphan of its lake table."""
    return f"/{TAILS_FOLDER}/" in location


@dataclass(slots=True)
class DoorFolder:
    """The folder of one door in one place. Its files are lent for a while."""

    io: FileIO
    root: str
    name: str
    renewed_ms: int

    @classmethod
    def begun(cls, io: FileIO, root: str, *, lease_s: float, now_ms: int) -> "DoorFolder":
        """Begin a folder, and mark it before anything else is in it."""
        folder = cls(io, root, new_id(), now_ms)
        folder.renew(lease_s=lease_s, now_ms=now_ms)
        return folder

    @property
    def location(self) -> str:
        """Where the files of the door lie."""
        return f"{self.root}/{self.name}"

    def renew(self, *, lease_s: float, now_ms: int) -> None:
        """Say that the door still runs."""
        with self.io.new_output(self._marker).create(overwrite=True) as stream:
            stream.write(json.dumps({"lease_ms": int(lease_s * _MS)}).encode())
        self.renewed_ms = now_ms

    def is_whole(self, *, lease_s: float, now_ms: int) -> bool:
        """Tell whether nobody took the folder for one that was left over."""
        is_young = now_ms - self.renewed_ms <= lease_s * _MS
        return is_young and self.io.new_input(self._marker).exists()

    def remove(self, locations: Iterable[str]) -> int:
        """Remove files, and return how many there were."""
        return remove(self.io, locations)

    def remove_all(self) -> None:
        """Remove the folder with everything in it."""
        remove_all(self.io, self.location)

    @property
    def _marker(self) -> str:
        return f"{self.location}/{MARKER}"


def remove_leftovers(io: FileIO, root: str, *, now_ms: int) -> Cleaned:
    """Remove the folders of doors that were killed, once all that they lent has run out."""
    folders: defaultdict[str, list[ListedFile]] = defaultdict(list)
    for file in listed(io, root):
        _, _, rest = file.location.partition(f"/{TAILS_FOLDER}/")
        folders[rest.partition("/")[0]].append(file)
    removed: list[ListedFile] = []
    for name, files in folders.items():
        folder = f"{root}/{name}"
        if name and _until_ms(io, folder, files) < now_ms:
            remove_all(io, folder)
            removed += files
    data = [file for file in removed if file.location.endswith(".parquet")]
    return Cleaned(
        data_files=len(data),
        metadata_files=len(removed) - len(data),
        byte_count=sum(file.byte_count for file in removed),
    )


def _until_ms(io: FileIO, folder: str, files: Iterable[ListedFile]) -> int:
    """Return until when the files of a folder are lent, by its marker or the newest of them."""
    lease_ms = int(LEASE_S * _MS)
    try:
        with io.new_input(f"{folder}/{MARKER}").open() as stream:
            lease_ms = int_of(object_of(document_of(stream.read()), what="marker"), "lease_ms")
    except (OSError, ValueError, InvalidTableError):
        # Half written, or removed meanwhile: then the usual time counts.
        pass
    return max((file.modified_ms for file in files), default=0) + lease_ms
