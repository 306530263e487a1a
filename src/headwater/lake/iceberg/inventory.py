"""The files of an Iceberg table: those that its snapshots name, against those that are there."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ResolveError
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat, ManifestFile, read_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from headwater.lake.iceberg.cleaning import held_beside, location_key, places_of
from headwater.lake.iceberg.listing import lost_count
from headwater.lake.iceberg.opening import load_table
from headwater.lake.iceberg.places import Listed, listed
from headwater.lake.spi import LakeInventory, LostFile, StrayFile
from headwater.model.path import TablePath

_GONE = "is gone"
# What libraries raise over files that hold something else than they should.
_UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    EOFError,
    OverflowError,
    ResolveError,
    struct.error,
    zlib.error,
    pa.ArrowException,
)


@dataclass(frozen=True, slots=True)
class _Named:
    """Say what the metadata tells of a file."""

    path: str
    snapshot_id: int
    byte_count: int | None = None
    data: DataFile | None = None


@dataclass(slots=True)
class _Naming:
    """Collect the files that snapshots name; each list of files is read once."""

    io: FileIO
    files: dict[str, _Named] = field(default_factory=dict)
    faults: dict[str, LostFile] = field(default_factory=dict)
    duplicates: list[LostFile] = field(default_factory=list)
    _listed: dict[str, list[DataFile]] = field(default_factory=dict)

    def add(self, snapshot: Snapshot) -> None:
        """Take in what a snapshot names: its list, the manifests in there, and their files."""
        self._name(_Named(snapshot.manifest_list, snapshot.snapshot_id))
        counted: Counter[str] = Counter()
        for manifest in self._manifests(snapshot):
            counted.update(file.file_path for file in self._files(manifest, snapshot.snapshot_id))
        self.duplicates += [
            LostFile(path, snapshot.snapshot_id, f"is listed {count} times")
            for path, count in counted.items()
            if count > 1
        ]

    def _manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        try:
            # Not `snapshot.manifests`, which takes what it knows of manifests from memory.
            manifests = list(read_manifest_list(self.io.new_input(snapshot.manifest_list)))
        except _UNREADABLE as fault:
            self._lose(snapshot.manifest_list, snapshot.snapshot_id, fault)
            return []
        if lost := lost_count(snapshot, manifests):
            why = f"lists none of the {lost} data files that the table has"
            path = snapshot.manifest_list
            self.faults.setdefault(location_key(path), LostFile(path, snapshot.snapshot_id, why))
        return manifests

    def _files(self, manifest: ManifestFile, snapshot_id: int) -> list[DataFile]:
        path = manifest.manifest_path
        if path not in self._listed:
            self._name(_Named(path, snapshot_id, manifest.manifest_length))
            self._listed[path] = self._read(manifest, snapshot_id)
            for file in self._listed[path]:
                self._name(_Named(file.file_path, snapshot_id, file.file_size_in_bytes, file))
        return self._listed[path]

    def _read(self, manifest: ManifestFile, snapshot_id: int) -> list[DataFile]:
        try:
            return [entry.data_file for entry in manifest.fetch_manifest_entry(self.io)]
        except _UNREADABLE as fault:
            self._lose(manifest.manifest_path, snapshot_id, fault)
            return []

    def _name(self, named: _Named) -> None:
        self.files.setdefault(location_key(named.path), named)

    def _lose(self, path: str, snapshot_id: int, fault: BaseException) -> None:
        why = _GONE if isinstance(fault, FileNotFoundError) else f"cannot be read: {_said(fault)}"
        self.faults.setdefault(location_key(path), LostFile(path, snapshot_id, why))


def taken_inventory(
    catalog: Catalog, path: TablePath, *, now_ms: int, opens_files: bool
) -> LakeInventory:
    """Compare files.

    1. List, before looking at the metadata: what is committed in between was not listed, or is
    named. 2. Collect what snapshots name. 3. Look at what seems to be missing, one by one. 4. Let
    go of what belongs to snapshots that were expired meanwhile.
    """
    table = load_table(catalog, path)
    found = {
        location_key(file.location): file
        for place in places_of(table)
        for file in listed(table.io, place)
    }
    table = load_table(catalog, path)
    naming = _named(table)
    lost = {**naming.faults, **dict(_lost(table.io, naming, found, opens_files=opens_files))}
    duplicates = naming.duplicates
    if lost or duplicates:
        again = _named(load_table(catalog, path))
        lost = {key: each for key, each in lost.items() if key in again.files}
        kept = {(each.path, each.snapshot_id) for each in again.duplicates}
        duplicates = [each for each in duplicates if (each.path, each.snapshot_id) in kept]
    held = naming.files.keys() | held_beside(table)
    return LakeInventory(
        named=len(naming.files),
        missing=tuple(lost[key] for key in sorted(lost)),
        orphans=tuple(_strays(found, held, now_ms=now_ms)),
        duplicates=tuple(duplicates),
    )


def _named(table: Table) -> _Naming:
    naming = _Naming(table.io)
    for snapshot in sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0):
        naming.add(snapshot)
    for each in (*table.metadata.statistics, *table.metadata.partition_statistics):
        named = _Named(each.statistics_path, each.snapshot_id, each.file_size_in_bytes)
        naming.files.setdefault(location_key(named.path), named)
    return naming


def _lost(
    io: FileIO, naming: _Naming, found: dict[str, Listed], *, opens_files: bool
) -> Iterator[tuple[str, LostFile]]:
    for key, named in naming.files.items():
        fault = _size_fault(io, named, found.get(key))
        if fault is None and opens_files and named.data is not None:
            fault = _content_fault(io, named.data)
        if fault is not None:
            yield key, LostFile(named.path, named.snapshot_id, fault)


def _size_fault(io: FileIO, named: _Named, there: Listed | None) -> str | None:
    """Say what is wrong with the size of a file, asking for it where the listing lacks it."""
    size = None if there is None else there.byte_count
    if size is None or (named.byte_count is not None and size != named.byte_count):
        try:
            size = len(io.new_input(named.path))
        except FileNotFoundError:
            return _GONE
        except _UNREADABLE as fault:
            return f"cannot be reached: {_said(fault)}"
    if named.byte_count is None or size == named.byte_count:
        return None
    return f"has {size} bytes, where the lake was told of {named.byte_count}"


def _content_fault(io: FileIO, file: DataFile) -> str | None:
    if file.file_format != FileFormat.PARQUET:
        return None
    try:
        with pq.ParquetFile(io.new_input(file.file_path).open()) as parquet:
            count = parquet.metadata.num_rows
    except _UNREADABLE as fault:
        return f"cannot be read: {_said(fault)}"
    if count == file.record_count:
        return None
    return f"holds {count} rows, where the lake was told of {file.record_count}"


def _strays(found: dict[str, Listed], held: Iterable[str], *, now_ms: int) -> Iterator[StrayFile]:
    known = set(held)
    for key, file in sorted(found.items()):
        if key not in known:
            yield StrayFile(file.location, max(now_ms - file.modified_ms, 0), file.byte_count)


def _said(fault: BaseException) -> str:
    return " ".join(str(fault).split())
