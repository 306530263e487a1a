"""Every file that snapshots hold, directly or through their manifests."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from headwater.lake.iceberg.listing import entries_of, listed_manifests


@dataclass(slots=True)
class Reachable:
    """Name files with their sizes, by what they are."""

    lists: set[str] = field(default_factory=set)
    manifests: dict[str, int] = field(default_factory=dict)
    data: dict[str, int] = field(default_factory=dict)
    """Data files and files of deletes."""


def reachable_files(
    io: FileIO, snapshots: Iterable[Snapshot], *, known: Collection[str] = ()
) -> Reachable:
    """Return the files that snapshots hold, but for what known manifests list."""
    found = Reachable()
    for snapshot in snapshots:
        found.lists.add(snapshot.manifest_list)
        for manifest in listed_manifests(snapshot, io):
            path = manifest.manifest_path
            if path in known or path in found.manifests:
                continue
            found.manifests[path] = manifest.manifest_length
            for entry in entries_of(io, manifest):
                found.data[entry.data_file.file_path] = entry.data_file.file_size_in_bytes
    return found
