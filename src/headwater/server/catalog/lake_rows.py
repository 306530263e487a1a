"""The rows of the catalog file that tell of the lake."""

from collections.abc import Sequence

from headwater.server.catalog.file import CatalogFile
from headwater.server.catalog.lake_entries import (
    ReportedLakeSnapshot,
    TieringRecord,
    reported_snapshot,
    tiering_record,
)


class LakeRows:
    """Write what is known of the lake as rows, and read it back."""

    def __init__(self, file: CatalogFile) -> None:
        self._file = file

    def records(self) -> dict[int, TieringRecord]:
        """Read the rounds of all tables."""
        rows = self._file.rows("SELECT table_id, turn, details FROM lake_tables")
        return {
            int(table_id or 0): tiering_record(int(turn or 0), str(details))
            for table_id, turn, details in rows
        }

    def put_record(self, table_id: int, record: TieringRecord) -> None:
        """Write the rounds of a table."""
        self._file.change(
            "INSERT INTO lake_tables VALUES (?, ?, ?) ON CONFLICT (table_id) DO UPDATE"
            " SET turn = excluded.turn, details = excluded.details",
            (table_id, record.turn, record.details()),
        )

    def snapshots(self) -> dict[int, tuple[ReportedLakeSnapshot, ...]]:
        """Read the snapshots of all tables, each in the order in which they were committed."""
        found: dict[int, tuple[ReportedLakeSnapshot, ...]] = {}
        for table_id, snapshot_id, committed_ms, details in self._file.rows(
            "SELECT table_id, snapshot_id, committed_ms, details FROM lake_snapshots"
            " ORDER BY position"
        ):
            snapshot = reported_snapshot(
                int(table_id or 0),
                int(snapshot_id or 0),
                committed_ms=int(committed_ms or 0),
                details=str(details),
            )
            found[snapshot.table_id] = (*found.get(snapshot.table_id, ()), snapshot)
        return found

    def put_snapshots(self, table_id: int, snapshots: Sequence[ReportedLakeSnapshot]) -> None:
        """Write the snapshots of a table anew."""
        self._file.change("DELETE FROM lake_snapshots WHERE table_id = ?", (table_id,))
        for each in snapshots:
            self._file.change(
                "INSERT INTO lake_snapshots (table_id, snapshot_id, committed_ms, details)"
                " VALUES (?, ?, ?, ?)",
                (each.table_id, each.snapshot_id, each.committed_ms, each.details()),
            )
