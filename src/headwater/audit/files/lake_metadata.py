"""What a directory holds of the lake, compared with the catalog: offsets files, and whether any."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.audit.files.catalog_seen import CatalogSeen
from headwater.audit.finding import Check, Finding, Severity
from headwater.audit.report import Notes
from headwater.config.lake import SERVED_FORMATS
from headwater.config.options import DATALAKE_FORMAT
from headwater.errors import HeadwaterError
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot
from headwater.server.catalog.lake_offsets import TieredOffsets, offsets_from_json
from headwater.server.lake.lake import METADATA

_LAKES = "lake"
_Fault = tuple[Severity, str]
REMEDY = "The catalog holds the offsets themselves, so that nothing is lost with the file; look for"
REMEDY += " what else the disk may have lost."


def audit_lake_metadata(directory: Path, catalog: CatalogSeen, notes: Notes) -> None:
    """Check that every offsets file that the catalog names is there and says the same."""
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
    """Note that the lake which lies in the directory, where none is named, is not there.

    Opening would make an empty one in its place.
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
                message=f"The server was told of lake snapshots of the table, and there is no"
                f" {directory / _LAKES / lake}.",
                remedy="Restore it from a copy before anything is written. If the lake lies in"
                " another place, say where with --lake, or audit through its server.",
            )
        )


def _faults(directory: Path, snapshot: ReportedLakeSnapshot) -> list[_Fault]:
    files = [(snapshot.tiered_path, snapshot.tiered)]
    if snapshot.readable_path and snapshot.readable is not None:
        files.append((snapshot.readable_path, snapshot.readable))
    # A directory that was moved has its files below another place than they were named by.
    found = ((directory / Path(unquote(urlsplit(url).path)).name, held) for url, held in files)
    faults = (_fault(path, held) for path, held in found)
    # What can be read at once is mostly all that there is: one file, told once.
    return list(dict.fromkeys(fault for fault in faults if fault is not None))


def _fault(path: Path, held: TieredOffsets) -> _Fault | None:
    try:
        told = offsets_from_json(path.read_bytes().decode())
    except FileNotFoundError:
        return Severity.WARNING, f"its offsets file {path} is missing"
    except (HeadwaterError, OSError, UnicodeDecodeError) as fault:
        return Severity.ERROR, f"its offsets file {path} cannot be read: {fault}"
    if told.ends == held.ends:
        return None
    return Severity.ERROR, f"its offsets file {path} differs from the catalog"
