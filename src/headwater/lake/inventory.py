"""Compare the files that the snapshots of a lake table name with those that exist.

A format lists files first and then collects what its snapshots name: anything committed in between
was not listed, or is named. If a file then seems to be lost or listed twice, names are collected
again, so that files of snapshots that expired meanwhile are not reported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.lake.spi import LakeInventory, LostFile, StrayFile

MISSING = "is missing"


@dataclass(frozen=True, slots=True)
class NamedFile:
    """What the metadata says about a file."""

    path: str
    snapshot_id: int
    byte_count: int | None = None
    row_count: int | None = None
    """Rows of a Parquet file; None for any other."""

    def size_fault(self, size: int) -> str | None:
        """Say what is wrong with a size; None if it is right or not recorded."""
        if self.byte_count is None or size == self.byte_count:
            return None
        return f"has {size} bytes, but the metadata says {self.byte_count}"

    def rows_fault(self, count: int) -> str | None:
        """Say what is wrong with a number of rows; None if it is right or not recorded."""
        if self.row_count is None or count == self.row_count:
            return None
        return f"holds {count} rows, but the metadata says {self.row_count}"


@dataclass(slots=True)
class NamedFiles:
    """The files that snapshots name; `key_of` maps a path to what identifies the file."""

    key_of: Callable[[str], str]
    files: dict[str, NamedFile] = field(default_factory=dict)
    faults: dict[str, LostFile] = field(default_factory=dict)
    duplicates: dict[tuple[str, int], LostFile] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    """Keys of files that the table needs although no snapshot names them."""

    def name(self, named: NamedFile) -> None:
        """Add a file; the first snapshot that names it counts."""
        self.files.setdefault(self.key_of(named.path), named)

    def lose(self, path: str, snapshot_id: int, fault: str) -> None:
        """Record that a list of files cannot be used."""
        self.faults.setdefault(self.key_of(path), LostFile(path, snapshot_id, fault))

    def repeat(self, path: str, snapshot_id: int, fault: str) -> None:
        """Record that a snapshot names a data file more than once."""
        self.duplicates[path, snapshot_id] = LostFile(path, snapshot_id, fault)


def compared(
    found: Mapping[str, StrayFile],
    *,
    collect: Callable[[], NamedFiles],
    fault_of: Callable[[NamedFile, StrayFile | None], str | None],
) -> LakeInventory:
    """Compare listed files, by key, with those that snapshots name; see the module's steps."""
    named = collect()
    lost = dict(named.faults)
    for key, each in named.files.items():
        if (fault := fault_of(each, found.get(key))) is not None:
            lost[key] = LostFile(each.path, each.snapshot_id, fault)
    duplicates = named.duplicates
    if lost or duplicates:
        again = collect()
        lost = {key: each for key, each in lost.items() if key in again.files}
        duplicates = {key: each for key, each in duplicates.items() if key in again.duplicates}
    held = named.files.keys() | named.others
    return LakeInventory(
        named=len(named.files),
        missing=tuple(lost[key] for key in sorted(lost)),
        orphans=tuple(found[key] for key in sorted(found) if key not in held),
        duplicates=tuple(duplicates.values()),
    )
