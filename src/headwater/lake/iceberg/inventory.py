"""The files of an Iceberg table: referenced by snapshots, present in storage, or to remove."""

import struct
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from posixpath import normpath
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, ResolveError
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat, ManifestFile, read_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from headwater.errors import LakeMovedError
from headwater.lake.iceberg.catalog import load_table
from headwater.lake.iceberg.files import ListedFile, commit_updates, listed, remove
from headwater.lake.iceberg.manifests import (
    back_to_boundary,
    entries_of,
    listed_manifests,
    lost_count,
)
from headwater.lake.iceberg.served import is_served
from headwater.lake.inventory import MISSING, NamedFile, NamedFiles, compared
from headwater.lake.spi import Cleaned, LakeInventory, Retention, StrayFile
from headwater.model import TablePath

# Every file that snapshots hold, directly or through their manifests.


@dataclass(slots=True)
class Reachable:
    """Files with their sizes, by kind."""

    lists: set[str] = field(default_factory=set)
    manifests: dict[str, int] = field(default_factory=dict)
    data: dict[str, int] = field(default_factory=dict)
    """Data files and delete files."""


def reachable_files(
    io: FileIO, snapshots: Iterable[Snapshot], *, known: Collection[str] = ()
) -> Reachable:
    """Collect the files that snapshots hold, except what known manifests list."""
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


# Which snapshots of a table expire: decided here, done below.


def expired_ids(metadata: TableMetadata, retention: Retention, *, now_ms: int) -> frozenset[int]:
    """Pick the snapshots that are old and that nothing refers to.

    Tags and the heads of branches stay, the newest few of each branch, and everything from the
    newest back to the one whose boundary holds for it: nothing else records what the lake holds.
    """
    oldest_ms = now_ms - retention.age_ms
    kept = {each.snapshot_id for each in metadata.snapshots if each.timestamp_ms >= oldest_ms}
    for ref in metadata.refs.values():
        kept.add(ref.snapshot_id)
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            line = ancestors_of(metadata.snapshot_by_id(ref.snapshot_id), metadata)
            kept |= {each.snapshot_id for each in islice(line, max(retention.snapshots_min, 1))}
    kept |= {each.snapshot_id for each in back_to_boundary(metadata)}
    return frozenset(each.snapshot_id for each in metadata.snapshots) - kept


# Removing files that no snapshot needs any more.

_ATTEMPTS_MAX = 5


def expire(catalog: Catalog, path: TablePath, retention: Retention, *, now_ms: int) -> Cleaned:
    """Drop old snapshots from the metadata, then delete what only they held."""
    for _ in range(_ATTEMPTS_MAX):
        table = load_table(catalog, path)
        expired = expired_ids(table.metadata, retention, now_ms=now_ms)
        if not expired:
            return Cleaned()
        try:
            _drop_snapshots(table, expired)
        except CommitFailedException:
            continue
        return _remove_expired(table, expired)
    raise LakeMovedError(f"Others keep changing the Iceberg table {path}.")


def _drop_snapshots(table: Table, expired: frozenset[int]) -> None:
    main = table.metadata.current_snapshot_id
    commit_updates(
        table,
        requirements=(
            AssertTableUUID(uuid=table.metadata.table_uuid),
            # If an older snapshot was made the newest again, it must not be lost.
            AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": main}),
        ),
        updates=(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(expired)}),),
    )


def _remove_expired(table: Table, expired: frozenset[int]) -> Cleaned:
    snapshots = table.metadata.snapshots
    kept = reachable_files(
        table.io, [each for each in snapshots if each.snapshot_id not in expired]
    )
    gone = reachable_files(
        table.io,
        [each for each in snapshots if each.snapshot_id in expired],
        known=kept.manifests.keys(),
    )
    data = gone.data.keys() - kept.data.keys()
    statistics = {
        each.statistics_path
        for each in (*table.metadata.statistics, *table.metadata.partition_statistics)
        if each.snapshot_id in expired
    }
    metadata = (gone.lists - kept.lists) | gone.manifests.keys() | statistics
    # Lists last: while they exist, what is left can still be found.
    removed_data = remove(table.io, sorted(data))
    return Cleaned(
        snapshots=len(expired),
        data_files=removed_data,
        metadata_files=remove(table.io, sorted(metadata)),
        byte_count=sum(gone.data[path] for path in data) + sum(gone.manifests.values()),
    )


def remove_orphans(catalog: Catalog, path: TablePath, *, older_than_ms: int) -> Cleaned:
    """Delete files below a table's places that its metadata does not lead to.

    Files are listed before the metadata is read: anything committed in between was not listed, or
    is referenced.
    """
    table = load_table(catalog, path)
    found = [file for file in _own_files(table) if file.modified_ms < older_than_ms]
    table = load_table(catalog, path)
    held = _held(table, reachable_files(table.io, table.metadata.snapshots))
    orphans = [file for file in found if location_key(file.location) not in held]
    data = [file for file in orphans if file.location.endswith(".parquet")]
    rest = [file for file in orphans if not file.location.endswith(".parquet")]
    return Cleaned(
        data_files=remove(table.io, [file.location for file in data]),
        metadata_files=remove(table.io, [file.location for file in rest]),
        byte_count=sum(file.byte_count for file in orphans),
    )


def _own_files(table: Table) -> Iterator[ListedFile]:
    """Yield the files below a table's places, without those that doors lend."""
    for place in places_of(table):
        yield from (file for file in listed(table.io, place) if not is_served(file.location))


def places_of(table: Table) -> list[str]:
    """Where the table's files lie: below its location, unless properties say otherwise."""
    names = ("write.data.path", "write.metadata.path")
    others = [table.properties[name] for name in names if name in table.properties]
    location = table.location().rstrip("/")
    below = f"{location_key(location)}/"
    return [location, *(each for each in others if not f"{location_key(each)}/".startswith(below))]


def _held(table: Table, reachable: Reachable) -> set[str]:
    files = (*reachable.lists, *reachable.manifests, *reachable.data)
    return held_beside(table) | {location_key(each) for each in files}


def held_beside(table: Table) -> set[str]:
    """Keys of the files that a table needs besides those its snapshots list."""
    metadata: TableMetadata = table.metadata
    files = {
        table.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(each.statistics_path for each in metadata.statistics),
        *(each.statistics_path for each in metadata.partition_statistics),
        f"{table.location().rstrip('/')}/metadata/version-hint.text",
    }
    return {location_key(each) for each in files}


def location_key(location: str) -> str:
    """Normalize a location, so that s3 and s3a, or file:/ and file:///, compare as equal."""
    parts = urlsplit(location)
    return normpath(f"{parts.netloc}/{parts.path.lstrip('/')}")


# The files that snapshots name, compared with those that exist.

# What libraries raise for files with unexpected content.
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


@dataclass(slots=True)
class _Collector:
    """Collects the files that snapshots name; each file list is read once."""

    io: FileIO
    named: NamedFiles = field(default_factory=lambda: NamedFiles(location_key))
    _listed: dict[str, list[DataFile]] = field(default_factory=dict)

    def add(self, snapshot: Snapshot) -> None:
        """Add what a snapshot names: its list, the manifests in there, and their files."""
        self.named.name(NamedFile(snapshot.manifest_list, snapshot.snapshot_id))
        counted: Counter[str] = Counter()
        for manifest in self._manifests(snapshot):
            counted.update(file.file_path for file in self._files(manifest, snapshot.snapshot_id))
        for path, count in counted.items():
            if count > 1:
                self.named.repeat(path, snapshot.snapshot_id, f"is listed {count} times")

    def _manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        path, number = snapshot.manifest_list, snapshot.snapshot_id
        try:
            # Not `snapshot.manifests`, which answers from a cache.
            manifests = list(read_manifest_list(self.io.new_input(path)))
        except _UNREADABLE as fault:
            self.named.lose(path, number, _unreadable(fault))
            return []
        if lost := lost_count(snapshot, manifests):
            self.named.lose(path, number, f"lists none of the {lost} data files that the table has")
        return manifests

    def _files(self, manifest: ManifestFile, snapshot_id: int) -> list[DataFile]:
        path = manifest.manifest_path
        if path not in self._listed:
            self.named.name(NamedFile(path, snapshot_id, manifest.manifest_length))
            self._listed[path] = self._read(manifest, snapshot_id)
            for file in self._listed[path]:
                rows = file.record_count if file.file_format == FileFormat.PARQUET else None
                size = file.file_size_in_bytes
                self.named.name(NamedFile(file.file_path, snapshot_id, size, rows))
        return self._listed[path]

    def _read(self, manifest: ManifestFile, snapshot_id: int) -> list[DataFile]:
        try:
            return [entry.data_file for entry in manifest.fetch_manifest_entry(self.io)]
        except _UNREADABLE as fault:
            self.named.lose(manifest.manifest_path, snapshot_id, _unreadable(fault))
            return []


def inventory_of(
    catalog: Catalog, path: TablePath, *, now_ms: int, opens_files: bool
) -> LakeInventory:
    """Compare the files of a table with those that its snapshots name."""
    table = load_table(catalog, path)
    found = {
        location_key(each.location): StrayFile(
            each.location, max(now_ms - each.modified_ms, 0), each.byte_count
        )
        for each in _own_files(table)
    }

    def fault_of(named: NamedFile, there: StrayFile | None) -> str | None:
        fault = _size_fault(table.io, named, there)
        return _content_fault(table.io, named) if fault is None and opens_files else fault

    return compared(found, collect=lambda: _named(load_table(catalog, path)), fault_of=fault_of)


def _named(table: Table) -> NamedFiles:
    collector = _Collector(table.io)
    for snapshot in sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0):
        collector.add(snapshot)
    named = collector.named
    for each in (*table.metadata.statistics, *table.metadata.partition_statistics):
        named.name(NamedFile(each.statistics_path, each.snapshot_id, each.file_size_in_bytes))
    named.others = set(held_beside(table))
    return named


def _size_fault(io: FileIO, named: NamedFile, there: StrayFile | None) -> str | None:
    """Say what is wrong with a file's size, asking for it unless the listing has the right one."""
    if there is not None and named.size_fault(there.byte_count) is None:
        return None
    try:
        return named.size_fault(len(io.new_input(named.path)))
    except FileNotFoundError:
        return MISSING
    except _UNREADABLE as fault:
        return f"cannot be reached: {_said(fault)}"


def _content_fault(io: FileIO, named: NamedFile) -> str | None:
    if named.row_count is None:
        return None
    try:
        with pq.ParquetFile(io.new_input(named.path).open()) as parquet:
            return named.rows_fault(parquet.metadata.num_rows)
    except _UNREADABLE as fault:
        return _unreadable(fault)


def _unreadable(fault: BaseException) -> str:
    return MISSING if isinstance(fault, FileNotFoundError) else f"cannot be read: {_said(fault)}"


def _said(fault: BaseException) -> str:
    return " ".join(str(fault).split())
