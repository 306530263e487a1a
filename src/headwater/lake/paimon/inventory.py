"""The files of a Paimon table: referenced by snapshots, present in storage, or to remove."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import CorruptFileError, LakeUnreachableError
from headwater.lake.inventory import MISSING, NamedFile, NamedFiles, compared
from headwater.lake.paimon.catalog import PaimonTable
from headwater.lake.paimon.files import FoundFile, reaching
from headwater.lake.paimon.manifests import (
    ADD,
    Entry,
    ListFile,
    Manifest,
    SnapshotFile,
    snapshot_from_json,
)
from headwater.lake.spi import Cleaned, LakeInventory, Retention, StrayFile
from headwater.model import Boundary

# Which snapshots of a table expire: decided here, done below.


class Aged(Protocol):
    """What expiration needs to know about a snapshot."""

    @property
    def snapshot_id(self) -> int:
        """Id of the snapshot."""
        ...

    @property
    def committed_ms(self) -> int:
        """When it was committed."""
        ...

    @property
    def own_boundary(self) -> Boundary | None:
        """The boundary that it carries itself."""
        ...


def expired_ids(
    snapshots: Sequence[Aged], retention: Retention, *, now_ms: int, next_ids: Sequence[int] = ()
) -> list[int]:
    """Pick the ids of snapshots to drop, out of all of them, oldest first.

    Snapshots go from the oldest on without a gap. Those stay that consumers still want, and the
    last one that has the boundary of all that follow.
    """
    end = max(len(snapshots) - max(retention.snapshots_min, 1), 0)
    oldest_ms = now_ms - retention.age_ms
    wanted = min(next_ids, default=None)
    for at, snapshot in enumerate(snapshots[:end]):
        if snapshot.committed_ms > oldest_ms or (
            wanted is not None and snapshot.snapshot_id >= wanted
        ):
            end = at
            break
    return [each.snapshot_id for each in snapshots[: _telling(snapshots, end)]]


def _telling(snapshots: Sequence[Aged], end: int) -> int:
    """Where to stop at the latest, so that the first one kept has a boundary."""
    tells = [at for at in range(end + 1) if at < len(snapshots) and snapshots[at].own_boundary]
    return tells[-1] if tells else end


# Removing files that no snapshot needs any more.

_SPECIAL_DIRECTORIES = frozenset(
    {
        "snapshot",
        "schema",
        "manifest",
        "index",
        "statistics",
        "tag",
        "branch",
        "consumer",
        "changelog",
        "service",
    }
)
_SNAPSHOT_PREFIXES = ("snapshot-", "tag-", "changelog-")


@dataclass(slots=True)
class _Held:
    """The files that snapshots hold."""

    data: dict[str, int] = field(default_factory=dict)
    """Paths of data files, with their sizes."""
    metadata: set[str] = field(default_factory=set)


def expire(table: PaimonTable, retention: Retention, *, now_ms: int) -> Cleaned:
    """Drop old snapshots, oldest first, then the files that only they held."""
    if table.handle.catalog_environment.supports_version_management:
        # A catalog that keeps snapshots itself also drops them.
        return Cleaned()
    snapshots = [each for each in map(table.snapshot, table.snapshot_ids()) if each is not None]
    gone = set(expired_ids(snapshots, retention, now_ms=now_ms, next_ids=_consumed(table)))
    dropped = [each for each in snapshots if each.snapshot_id in gone]
    if not dropped:
        return Cleaned()
    lost = _held(table, dropped, with_replaced=True)
    # Readers must not begin with a snapshot whose files go next.
    earliest = dropped[-1].snapshot_id + 1
    table.files.replace(f"{table.root}/snapshot/EARLIEST", str(earliest).encode())
    for each in dropped:
        table.files.delete(table.snapshot_path(each.snapshot_id))
    kept = _held(table, [*all_snapshots(table)])
    data = [path for path in lost.data if path not in kept.data and table.files.delete(path)]
    metadata = [
        path for path in lost.metadata if path not in kept.metadata and table.files.delete(path)
    ]
    return Cleaned(
        snapshots=len(dropped),
        data_files=len(data),
        metadata_files=len(metadata),
        byte_count=sum(lost.data[path] for path in data),
    )


def remove_orphans(table: PaimonTable, *, older_than_ms: int) -> Cleaned:
    """Delete old files below the table's directory that no snapshot holds."""
    # Files listed before snapshots are read cannot be newer than they are.
    data = [each for each in data_files(table) if each.modified_ms < older_than_ms]
    metadata = [
        each
        for each in table.files.list(f"{table.root}/manifest")
        if not each.is_directory and each.modified_ms < older_than_ms
    ]
    kept = _held(table, [*all_snapshots(table)])
    names = {name_of(path) for path in (*kept.data, *kept.metadata)}
    lost_data = [each for each in data if each.name not in names]
    lost_metadata = [each for each in metadata if each.name not in names]
    removed = [each for each in lost_data if table.files.delete(each.path)]
    unlisted = [each for each in lost_metadata if table.files.delete(each.path)]
    return Cleaned(
        data_files=len(removed),
        metadata_files=len(unlisted),
        byte_count=sum(each.byte_count for each in (*removed, *unlisted)),
    )


def _held(
    table: PaimonTable, snapshots: Iterable[SnapshotFile], *, with_replaced: bool = False
) -> _Held:
    """What snapshots hold; on request, also the files that they removed from the table."""
    held = _Held()
    for snapshot in snapshots:
        lists = [*snapshot.lists, *filter(None, [snapshot.changelog_list])]
        manifests = [each for listed in lists for each in table.manifests.read_list(listed)]
        names = [each.name for each in lists] + [each.name for each in manifests]
        held.metadata.update(map(table.manifests.path, names))
        held.metadata.update(map(table.manifests.path, filter(None, [snapshot.index_manifest])))
        mentioned = [entry for each in manifests for entry in table.manifests.read(each)]
        for entry in mentioned if with_replaced else _holding(table, snapshot):
            path = table.file_path(entry)
            held.data[path] = entry.file.byte_count
            held.data.update({beside(path, name): 0 for name in entry.file.extra_names})
    return held


def _holding(table: PaimonTable, snapshot: SnapshotFile) -> Iterator[Entry]:
    yield from table.live(snapshot)
    if snapshot.changelog_list is not None:
        for manifest in table.manifests.read_list(snapshot.changelog_list):
            yield from table.manifests.read(manifest)


def all_snapshots(table: PaimonTable) -> Iterator[SnapshotFile]:
    """Yield what may be read: snapshots, tags, and those of branches."""
    roots = [table.root]
    roots += [each.path for each in table.files.list(f"{table.root}/branch") if each.is_directory]
    places = [f"{root}/{name}" for root in roots for name in ("snapshot", "tag", "changelog")]
    for each in (file for place in places for file in table.files.list(place)):
        if each.name.startswith(_SNAPSHOT_PREFIXES):
            content = table.files.read_or_none(each.path)
            if content is not None:
                yield snapshot_from_json(content)


def _consumed(table: PaimonTable) -> list[int]:
    """The snapshots that consumers want to read next."""
    found = []
    for each in table.files.list(f"{table.root}/consumer"):
        content = table.files.read_or_none(each.path)
        wanted = json.loads(content).get("nextSnapshot") if content else None
        if isinstance(wanted, int):
            found.append(wanted)
    return found


def data_files(table: PaimonTable) -> Iterator[FoundFile]:
    """Yield the files in the directories of data files."""
    for each in table.files.list(table.root):
        if each.is_directory and each.name not in _SPECIAL_DIRECTORIES:
            yield from _below(table, each.path)


def _below(table: PaimonTable, directory: str) -> Iterator[FoundFile]:
    for each in table.files.list(directory):
        if each.is_directory:
            yield from _below(table, each.path)
        else:
            yield each


def beside(path: str, name: str) -> str:
    """Path of a file in the directory of another one."""
    return f"{path.rpartition('/')[0]}/{name}"


def name_of(path: str) -> str:
    """The file name; it is unique, while directories may be spelled in several ways."""
    return path.rpartition("/")[2]


# The files that snapshots name, compared with those that exist.

_FAULTS = (CorruptFileError, LakeUnreachableError, FileNotFoundError)
_PARQUET = ".parquet"


@dataclass(slots=True)
class _Collector:
    """Collects the files that snapshots name, by their names, which are unique."""

    table: PaimonTable
    named: NamedFiles = field(default_factory=lambda: NamedFiles(name_of))

    def add(self, snapshot: SnapshotFile) -> None:
        """Add what a snapshot names: lists, the manifests in there, and their files."""
        number = snapshot.snapshot_id
        for name in filter(None, [snapshot.index_manifest]):
            self.named.name(NamedFile(self.table.manifests.path(name), number))
        for name in filter(None, [snapshot.statistics]):
            self.named.name(NamedFile(f"{self.table.root}/statistics/{name}", number))
        self._hold(snapshot, self._entries(snapshot.lists, number))
        for listed in filter(None, [snapshot.changelog_list]):
            for entry in self._entries([listed], number):
                self._name_data(entry, number)

    def _hold(self, snapshot: SnapshotFile, entries: Iterator[Entry]) -> None:
        """Name the files that remain when removed ones are subtracted from added ones."""
        live: dict[tuple[bytes, int, int, str], Entry] = {}
        for entry in entries:
            if entry.kind != ADD:
                live.pop(entry.identity, None)
                continue
            if entry.identity in live:
                path = self.table.file_path(entry)
                self.named.repeat(path, snapshot.snapshot_id, "is listed twice")
            live[entry.identity] = entry
        for entry in live.values():
            self._name_data(entry, snapshot.snapshot_id)

    def _entries(self, lists: Iterable[ListFile], number: int) -> Iterator[Entry]:
        manifests = self.table.manifests
        for listed in lists:
            path = manifests.path(listed.name)
            self.named.name(NamedFile(path, number, listed.byte_count))
            for manifest in self._manifests(listed, number):
                path = manifests.path(manifest.name)
                self.named.name(NamedFile(path, number, manifest.byte_count))
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
        rows = file.row_count if path.endswith(_PARQUET) else None
        self.named.name(NamedFile(path, number, file.byte_count, rows))
        for name in file.extra_names:
            self.named.name(NamedFile(beside(path, name), number))

    def _lose(self, path: str, number: int, fault: Exception) -> None:
        why = f"cannot be read: {fault}" if self.table.files.exists(path) else MISSING
        self.named.lose(path, number, why)


def inventory_of(table: PaimonTable, *, now_ms: int, opens_files: bool) -> LakeInventory:
    """Compare the files of a table with those that its snapshots name."""
    found = {
        each.name: StrayFile(each.path, max(now_ms - each.modified_ms, 0), each.byte_count)
        for each in (*data_files(table), *_metadata_files(table))
    }

    def fault_of(named: NamedFile, there: StrayFile | None) -> str | None:
        fault = _size_fault(table, named, there)
        return _content_fault(table, named) if fault is None and opens_files else fault

    return compared(found, collect=lambda: _named(table), fault_of=fault_of)


def _named(table: PaimonTable) -> NamedFiles:
    collector = _Collector(table)
    for snapshot in sorted(all_snapshots(table), key=lambda each: each.snapshot_id):
        collector.add(snapshot)
    return collector.named


def _metadata_files(table: PaimonTable) -> list[FoundFile]:
    return [each for each in table.files.list(f"{table.root}/manifest") if not each.is_directory]


def _size_fault(table: PaimonTable, named: NamedFile, there: StrayFile | None) -> str | None:
    if there is None:
        return None if table.files.exists(named.path) else MISSING
    return named.size_fault(there.byte_count)


def _content_fault(table: PaimonTable, named: NamedFile) -> str | None:
    if named.row_count is None:
        return None
    try:
        with (
            reaching(named.path),
            pq.ParquetFile(table.files.open_input(named.path)) as parquet,
        ):
            return named.rows_fault(parquet.metadata.num_rows)
    except (*_FAULTS, pa.ArrowException) as fault:
        return f"cannot be read: {fault}"
