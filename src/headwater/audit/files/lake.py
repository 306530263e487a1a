"""Compare what the catalog knows about the lake with the logs and the offsets files."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.audit.files.catalog import CatalogSeen, TableSeen
from headwater.audit.report import Check, Finding, Notes, Severity
from headwater.config.lake import SERVED_FORMATS
from headwater.config.options import DATALAKE_FORMAT
from headwater.errors import HeadwaterError
from headwater.model import LakeBucket, TableBucket
from headwater.server.catalog import lake_entries
from headwater.server.lake import METADATA


def check_boundaries(catalog: CatalogSeen, ends: Mapping[TableBucket, int], notes: Notes) -> None:
    """Check that no log ends before what the lake holds of it."""
    for table in catalog.tables.values():
        snapshots = catalog.lake_snapshots.get(table.table_id)
        for lake_bucket, tiered in (snapshots[-1].tiered.ends if snapshots else {}).items():
            _check(table, lake_bucket, tiered, catalog=catalog, ends=ends, notes=notes)


def _check(
    table: TableSeen,
    lake_bucket: LakeBucket,
    tiered: int,
    *,
    catalog: CatalogSeen,
    ends: Mapping[TableBucket, int],
    notes: Notes,
) -> None:
    partition_id = lake_bucket.partition_id
    if partition_id is not None and partition_id not in catalog.partitions:
        return
    bucket = TableBucket(table.table_id, lake_bucket.bucket, partition_id)
    end = ends.get(bucket, 0)
    if tiered <= end:
        return
    notes.bad(
        Finding(
            check=Check.BOUNDARY,
            table=table.name,
            partition=None if partition_id is None else catalog.partitions[partition_id][1],
            bucket=bucket.bucket,
            offset=end,
            message=(
                f"The lake holds the bucket up to offset {tiered}, but its log ends "
                f"at {end}: new rows would get offsets that other rows have in the "
                "lake."
            ),
            remedy="Restore the log of the bucket from a copy before anything is written.",
        )
    )


# What a directory holds of the lake, compared with the catalog: offsets files, and whether any.

_LAKES = "lake"
_Fault = tuple[Severity, str]
REMEDY = "The catalog holds the offsets themselves, so that nothing is lost with the file; look for"
REMEDY += " what else the disk may have lost."


def audit_lake_metadata(directory: Path, catalog: CatalogSeen, notes: Notes) -> None:
    """Check that every offsets file that the catalog names exists and agrees with it."""
    for table_id, snapshots in catalog.lake_snapshots.items():
        table = catalog.tables.get(table_id)
        for snapshot in snapshots:
            for severity, fault in _faults(directory / METADATA / str(table_id), snapshot):
                notes.bad(
                    Finding(
                        check=Check.FILES,
                        severity=severity,
                        table=None if table is None else table.name,
                        message=f"Lake snapshot {snapshot.snapshot_id}: {fault}.",
                        remedy=REMEDY,
                    )
                )


def note_lake_gone(directory: Path, catalog: CatalogSeen, notes: Notes) -> None:
    """Note that the lake inside the directory, used if no other is configured, is missing.

    Opening the storage would create an empty one in its place.
    """
    for table_id in sorted(catalog.lake_snapshots):
        table = catalog.tables.get(table_id)
        lake = None if table is None else DATALAKE_FORMAT.of(table.descriptor.properties)
        if table is None or lake not in SERVED_FORMATS or (directory / _LAKES / lake).exists():
            continue
        notes.bad(
            Finding(
                check=Check.LAKE_FILES,
                table=table.name,
                message=(
                    "The catalog records lake snapshots of the table, but "
                    f"{directory / _LAKES / lake} does not exist."
                ),
                remedy=(
                    "Restore it from a copy before anything is written. If the lake is "
                    "elsewhere, say where with --lake, or audit through its server."
                ),
            )
        )


def _faults(directory: Path, snapshot: lake_entries.ReportedLakeSnapshot) -> list[_Fault]:
    files = [(snapshot.tiered_path, snapshot.tiered)]
    if snapshot.readable_path and snapshot.readable is not None:
        files.append((snapshot.readable_path, snapshot.readable))
    # In a directory that was moved, files are no longer at their recorded paths.
    found = ((directory / Path(unquote(urlsplit(url).path)).name, held) for url, held in files)
    faults = (_fault(path, held) for path, held in found)
    # The first part is usually everything: one file, recorded once.
    return list(dict.fromkeys(fault for fault in faults if fault is not None))


def _fault(path: Path, held: lake_entries.TieredOffsets) -> _Fault | None:
    try:
        told = lake_entries.offsets_from_json(path.read_bytes().decode())
    except FileNotFoundError:
        return Severity.WARNING, f"its offsets file {path} is missing"
    except (HeadwaterError, OSError, UnicodeDecodeError) as fault:
        return Severity.ERROR, f"its offsets file {path} cannot be read: {fault}"
    if told.ends == held.ends:
        return None
    return Severity.ERROR, f"its offsets file {path} differs from the catalog"
