"""The files of a lake table: those that its snapshots name, against those that are there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import CorruptFileError, LakeUnreachableError
from headwater.lake.paimon.cleaning import all_snapshots, beside, data_files, name_of
from headwater.lake.paimon.files import FoundFile, reaching
from headwater.lake.paimon.manifests import ADD, Entry, Manifest
from headwater.lake.paimon.snapshot import ListFile, SnapshotFile
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.spi import LakeInventory, LostFile, StrayFile

_GONE = "is gone"
_FAULTS = (CorruptFileError, LakeUnreachableError, FileNotFoundError)
_PARQUET = ".parquet"


@dataclass(frozen=True, slots=True)
class _Named:
    """Say what snapshots tell of a file."""

    path: str
    snapshot_id: int
    byte_count: int | None = None
    row_count: int | None = None


@dataclass(slots=True)
class _Naming:
    """Collect the files that snapshots name, by their names, which are unique."""

    table: PaimonTable
    files: dict[str, _Named] = field(default_factory=dict)
    faults: dict[str, LostFile] = field(default_factory=dict)
    duplicates: dict[tuple[str, int], LostFile] = field(default_factory=dict)

    def add(self, snapshot: SnapshotFile) -> None:
        """Take in what a snapshot names: lists, the manifests in there, and their files."""
        number = snapshot.snapshot_id
        for name in filter(None, [snapshot.index_manifest]):
            self._name(_Named(self.table.manifests.path(name), number))
        for name in filter(None, [snapshot.statistics]):
            self._name(_Named(f"{self.table.root}/statistics/{name}", number))
        self._hold(snapshot, self._entries(snapshot.lists, number))
        for listed in filter(None, [snapshot.changelog_list]):
            for entry in self._entries([listed], number):
                self._name_data(entry, number)

    def _hold(self, snapshot: SnapshotFile, entries: Iterator[Entry]) -> None:
        """Name the files that are left when those that leave are taken from those that join."""
        live: dict[tuple[bytes, int, int, str], Entry] = {}
        for entry in entries:
            if entry.kind != ADD:
                live.pop(entry.identity, None)
                continue
            if entry.identity in live:
                path, number = self.table.file_path(entry), snapshot.snapshot_id
                self.duplicates[path, number] = LostFile(path, number, "is listed twice")
            live[entry.identity] = entry
        for entry in live.values():
            self._name_data(entry, snapshot.snapshot_id)

    def _entries(self, lists: Iterable[ListFile], number: int) -> Iterator[Entry]:
        manifests = self.table.manifests
        for listed in lists:
            self._name(_Named(manifests.path(listed.name), number, listed.byte_count))
            for manifest in self._manifests(listed, number):
                self._name(_Named(manifests.path(manifest.name), number, manifest.byte_count))
                yield from self._read(manifest, number)

    def _manifests(self, listed: ListFile, number: int) -> list[Manifest]:
        try:
            return self.table.manifests.read_list(listed)
        except _FAULTS as fault:
            self._lose(self.table.manifests.path(listed.name), number, fault)
            return []

    def _read(self, manifest: Manifest, number: int) -> list[Entry]:
        try:
            return self.table.manifests.read(manifest)
        except _FAULTS as fault:
            self._lose(self.table.manifests.path(manifest.name), number, fault)
            return []

    def _name_data(self, entry: Entry, number: int) -> None:
        path, file = self.table.file_path(entry), entry.file
        self._name(_Named(path, number, file.byte_count, file.row_count))
        for name in file.extra_names:
            self._name(_Named(beside(path, name), number))

    def _name(self, named: _Named) -> None:
        self.files.setdefault(name_of(named.path), named)

    def _lose(self, path: str, number: int, fault: Exception) -> None:
        why = f"cannot be read: {fault}" if self.table.files.exists(path) else _GONE
        self.faults.setdefault(name_of(path), LostFile(path, number, why))


def taken_inventory(table: PaimonTable, *, now_ms: int, opens_files: bool) -> LakeInventory:
    """Compare files.

    1. List, before looking at snapshots: what is committed in between was not listed, or is named.
    2. Collect what snapshots name. 3. Look at what seems to be missing, one by one. 4. Let go of
    what belongs to snapshots that were expired meanwhile.
    """
    found = {each.name: each for each in (*data_files(table), *_metadata_files(table))}
    naming = _named(table)
    lost = {**naming.faults, **dict(_lost(naming, found, opens_files=opens_files))}
    duplicates = naming.duplicates
    if lost or duplicates:
        again = _named(table)
        lost = {name: each for name, each in lost.items() if name in again.files}
        duplicates = {key: each for key, each in duplicates.items() if key in again.duplicates}
    return LakeInventory(
        named=len(naming.files),
        missing=tuple(lost[name] for name in sorted(lost)),
        orphans=tuple(
            StrayFile(each.path, max(now_ms - each.modified_ms, 0), each.byte_count)
            for name, each in sorted(found.items())
            if name not in naming.files
        ),
        duplicates=tuple(duplicates.values()),
    )


def _named(table: PaimonTable) -> _Naming:
    naming = _Naming(table)
    for snapshot in sorted(all_snapshots(table), key=lambda each: each.snapshot_id):
        naming.add(snapshot)
    return naming


def _metadata_files(table: PaimonTable) -> list[FoundFile]:
    return [each for each in table.files.list(f"{table.root}/manifest") if not each.is_directory]


def _lost(
    naming: _Naming, found: dict[str, FoundFile], *, opens_files: bool
) -> Iterator[tuple[str, LostFile]]:
    table = naming.table
    for name, named in naming.files.items():
        there = found.get(name)
        fault = _size_fault(table, named, there)
        if fault is None and opens_files and named.row_count is not None:
            fault = _content_fault(table, named, named.row_count)
        if fault is not None:
            yield name, LostFile(named.path, named.snapshot_id, fault)


def _size_fault(table: PaimonTable, named: _Named, there: FoundFile | None) -> str | None:
    if there is None:
        return None if table.files.exists(named.path) else _GONE
    if named.byte_count is None or there.byte_count == named.byte_count:
        return None
    return f"has {there.byte_count} bytes, where the lake was told of {named.byte_count}"


def _content_fault(table: PaimonTable, named: _Named, row_count: int) -> str | None:
    if not named.path.endswith(_PARQUET):
        return None
    try:
        with (
            reaching(named.path),
            pq.ParquetFile(table.files.open_input(named.path)) as parquet,
        ):
            count = parquet.metadata.num_rows
    except (*_FAULTS, pa.ArrowException) as fault:
        return f"cannot be read: {fault}"
    if count == row_count:
        return None
    return f"holds {count} rows, where the lake was told of {row_count}"
