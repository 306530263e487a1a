"""What the summary of a snapshot says: what it added and removed, and what there is now."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent

_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    data_files: int = 0
    records: int = 0
    position_files: int = 0
    positions: int = 0
    equality_files: int = 0
    equalities: int = 0
    byte_count: int = 0


def summary_of(
    *,
    added: Iterable[DataFile],
    removed: Iterable[DataFile],
    before: Mapping[str, str] | None,
) -> dict[str, str]:
    """Return the counts of a snapshot, given the summary of the one before, if there is one."""
    counts = {**_changes(_counted(added), added=True), **_changes(_counted(removed), added=False)}
    totals: dict[str, str] = {}
    for total, plus, minus in _TOTALS:
        held = "0" if before is None else before.get(total)
        if held is not None and held.isdecimal():
            totals[total] = str(int(held) + counts.get(plus, 0) - counts.get(minus, 0))
    return {**{name: str(count) for name, count in counts.items() if count}, **totals}


def _counted(files: Iterable[DataFile]) -> _Counted:
    held = list(files)
    data = [file for file in held if file.content == DataFileContent.DATA]
    positions = [file for file in held if file.content == DataFileContent.POSITION_DELETES]
    equalities = [file for file in held if file.content == DataFileContent.EQUALITY_DELETES]
    return _Counted(
        data_files=len(data),
        records=_rows(data),
        position_files=len(positions),
        positions=_rows(positions),
        equality_files=len(equalities),
        equalities=_rows(equalities),
        byte_count=sum(file.file_size_in_bytes for file in held),
    )


def _rows(files: Iterable[DataFile]) -> int:
    return sum(file.record_count for file in files)


def _changes(counted: _Counted, *, added: bool) -> dict[str, int]:
    files = "added" if added else "removed"
    # Of data files and records, Iceberg says deleted; of everything else, removed.
    data = "added" if added else "deleted"
    return {
        f"{data}-data-files": counted.data_files,
        f"{data}-records": counted.records,
        f"{files}-delete-files": counted.position_files + counted.equality_files,
        f"{files}-position-delete-files": counted.position_files,
        f"{files}-position-deletes": counted.positions,
        f"{files}-equality-delete-files": counted.equality_files,
        f"{files}-equality-deletes": counted.equalities,
        f"{files}-files-size": counted.byte_count,
    }
