"""Every file that snapshots hold, directly or through their manifests."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot


@dataclass(slots=True)
class Reachable:
    """Name files by what they are."""

    lists: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)
    """Data files and files of deletes."""

    @property
    def metadata(self) -> set[str]:
        """Return manifests and the lists of them."""
        return self.lists | self.manifests


def reachable_files(
    io: FileIO, snapshots: Iterable[Snapshot], *, without: Reachable | None = None
) -> Reachable:
    """Return the files that snapshots hold; manifests that others hold are not looked into."""
    found = Reachable()
    known = set() if without is None else without.manifests
    for snapshot in snapshots:
        found.lists.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(io):
            path = manifest.manifest_path
            if path in known or path in found.manifests:
                continue
            found.manifests.add(path)
            entries = manifest.fetch_manifest_entry(io)
            found.data |= {entry.data_file.file_path for entry in entries}
    return found
