"""Which tables and partitions have rows on disk, whether or not the catalog knows of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import CorruptFileError

LOGS = "log"
_PARTITION = "p"


@dataclass(frozen=True, slots=True)
class IdsOnDisk:
    """Hold the highest ids that were ever given to something with rows, or 0."""

    table_id: int
    partition_id: int


def ids_on_disk(directory: Path) -> IdsOnDisk:
    """Look for the logs of tables and partitions below a data directory."""
    tables = dict(_numbered(directory / LOGS, ""))
    partitions = [number for table in tables.values() for number, _ in _numbered(table, _PARTITION)]
    return IdsOnDisk(max(tables, default=0), max(partitions, default=0))


def require_catalog(catalog: Path, found: IdsOnDisk) -> None:
    """Refuse to begin anew where there are rows: the catalog that knew whose they are is lost."""
    if found.table_id and not (catalog.exists() and catalog.stat().st_size):
        raise CorruptFileError(
            f"The catalog {catalog} is missing or empty, but {catalog.parent / LOGS} holds rows.",
            hint="Restore it from a backup: it says whose rows they are. To begin anew, use"
            " another directory.",
        )


def _numbered(directory: Path, prefix: str) -> Iterator[tuple[int, Path]]:
    if not directory.is_dir():
        return
    for entry in directory.iterdir():
        number = entry.name.removeprefix(prefix)
        if entry.name.startswith(prefix) and number.isdigit() and entry.is_dir():
            yield int(number), entry
