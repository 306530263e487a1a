"""Removing old snapshots and lost files of a lake table."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headwater.lake.paimon.files import FoundFile
from headwater.lake.paimon.manifests import Entry
from headwater.lake.paimon.retention import expired_ids
from headwater.lake.paimon.snapshot import SnapshotFile, snapshot_from_json
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.spi import Cleaned, Retention

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
    """Name the files that snapshots hold."""

    data: dict[str, int] = field(default_factory=dict)
    """Paths of data files, with their sizes."""
    metadata: set[str] = field(default_factory=set)


def expire(table: PaimonTable, retention: Retention, *, now_ms: int) -> Cleaned:
    """Drop old snapshots, oldest first, then the files that only they held."""
    if table.handle.catalog_environment.supports_version_management:
        # A catalog that keeps snapshots itself is also the one that drops them.
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
    """Delete old files under the table's directory that no snapshot holds."""
    # What is listed before snapshots are read cannot be newer than they are.
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
    """Return what snapshots hold; with those that left the table by them, if asked for."""
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
    """Return the snapshots that consumers want to read next."""
    found = []
    for each in table.files.list(f"{table.root}/consumer"):
        content = table.files.read_or_none(each.path)
        wanted = json.loads(content).get("nextSnapshot") if content else None
        if isinstance(wanted, int):
            found.append(wanted)
    return found


def data_files(table: PaimonTable) -> Iterator[FoundFile]:
    """Yield the files that lie where data files do."""
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
    """Return the path of a file in the directory of another one."""
    return f"{path.rpartition('/')[0]}/{name}"


def name_of(path: str) -> str:
    """Return the name, which is unique, since directories may be spelled in several ways."""
    return path.rpartition("/")[2]
