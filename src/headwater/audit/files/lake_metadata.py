"""The offsets files of tiering rounds, compared with the catalog that names them."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.audit.files.catalog_seen import CatalogSeen
from headwater.audit.finding import Check, Finding, Severity
from headwater.audit.report import Notes
from headwater.errors import HeadwaterError
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot
from headwater.server.catalog.lake_offsets import TieredOffsets, offsets_from_json
from headwater.server.lake.lake import METADATA

REMEDY = "The catalog holds the offsets themselves, so that nothing is lost with the file; look for"
REMEDY += " what else the disk may have lost."


def audit_lake_metadata(directory: Path, catalog: CatalogSeen, notes: Notes) -> None:
    """Check that every offsets file that the catalog names is there and says the same."""
    for table_id, snapshots in catalog.lake_snapshots.items():
        table = catalog.tables.get(table_id)
        for snapshot in snapshots:
            for fault in _faults(directory / METADATA / str(table_id), snapshot):
                notes.bad(
                    Finding(
                        check=Check.FILES,
                        severity=Severity.ERROR,
                        table=None if table is None else table.name,
                        message=f"Lake snapshot {snapshot.snapshot_id}: {fault}.",
                        remedy=REMEDY,
                    )
                )


def _faults(directory: Path, snapshot: ReportedLakeSnapshot) -> list[str]:
    files = [(snapshot.tiered_path, snapshot.tiered)]
    if snapshot.readable_path and snapshot.readable is not None:
        files.append((snapshot.readable_path, snapshot.readable))
    # A directory that was moved has its files below another place than they were named by.
    found = ((directory / Path(unquote(urlsplit(url).path)).name, held) for url, held in files)
    return [fault for path, held in found if (fault := _fault(path, held))]


def _fault(path: Path, held: TieredOffsets) -> str:
    try:
        told = offsets_from_json(path.read_bytes().decode())
    except FileNotFoundError:
        return f"its offsets file {path} is missing"
    except (HeadwaterError, OSError, UnicodeDecodeError) as fault:
        return f"its offsets file {path} cannot be read: {fault}"
    return "" if told.ends == held.ends else f"its offsets file {path} differs from the catalog"
