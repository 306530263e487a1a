"""Files removed that no snapshot of a table needs any more."""

from posixpath import normpath
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from headwater.errors import LakeMovedError
from headwater.lake.iceberg.expiry import expired_ids
from headwater.lake.iceberg.opening import load_table
from headwater.lake.iceberg.places import listed, remove
from headwater.lake.iceberg.reachable import Reachable, reachable_files
from headwater.lake.iceberg.updates import commit_updates
from headwater.lake.spi import Cleaned, Retention
from headwater.model.path import TablePath

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
            # Whoever made an older snapshot the newest one again must not lose it.
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
    # Lists last: while they are there, what is left can still be found.
    removed_data = remove(table.io, sorted(data))
    return Cleaned(
        snapshots=len(expired),
        data_files=removed_data,
        metadata_files=remove(table.io, sorted(metadata)),
        byte_count=sum(gone.data[path] for path in data) + sum(gone.manifests.values()),
    )


def remove_orphans(catalog: Catalog, path: TablePath, *, older_than_ms: int) -> Cleaned:
    """Delete files below the places of a table that its metadata does not lead to.

    Lists before it looks at the metadata: what is committed in between was not listed, or is held.
    """
    table = load_table(catalog, path)
    found = [
        file
        for place in places_of(table)
        for file in listed(table.io, place)
        if file.modified_ms < older_than_ms
    ]
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


def places_of(table: Table) -> list[str]:
    """Return where files of the table lie: below its location, unless properties say otherwise."""
    names = ("write.data.path", "write.metadata.path")
    others = [table.properties[name] for name in names if name in table.properties]
    location = table.location().rstrip("/")
    below = f"{location_key(location)}/"
    return [location, *(each for each in others if not f"{location_key(each)}/".startswith(below))]


def _held(table: Table, reachable: Reachable) -> set[str]:
    files = (*reachable.lists, *reachable.manifests, *reachable.data)
    return held_beside(table) | {location_key(each) for each in files}


def held_beside(table: Table) -> set[str]:
    """Return the keys of the files that a table needs beside what its snapshots list."""
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
    """Return what ways to write one location have in common: s3 and s3a, file:/ and file:///."""
    parts = urlsplit(location)
    return normpath(f"{parts.netloc}/{parts.path.lstrip('/')}")
