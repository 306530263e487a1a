"""What the catalog knows of the lake: rounds of tables, and snapshots that were reported."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from headwater.model.boundary import LakeBucket
from headwater.model.type_json import Json
from headwater.server.catalog.lake_offsets import TieredOffsets, offsets_from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringRecord:
    """Hold what outlives a server of the rounds of one table."""

    turn: int = 0
    """How often the table was handed out; a later turn fences the earlier ones."""
    last_tiered_ms: int | None = None
    last_duration_ms: int | None = None
    failures: int = 0
    """Rounds in a row that failed."""
    last_failure: str | None = None
    file_size: int | None = None
    record_count: int | None = None

    def details(self) -> str:
        """Write everything but the turn."""
        fields = asdict(self)
        del fields["turn"]
        return json.dumps(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLakeSnapshot:
    """Hold what a tierer told of a lake snapshot."""

    table_id: int
    snapshot_id: int
    committed_ms: int
    tiered: TieredOffsets
    tiered_path: str
    readable: TieredOffsets | None = None
    """What can be read at once; None if nobody told."""
    readable_path: str | None = None
    standing: str = "checked"
    """How far it is believed: checked, unseen or absent."""
    believed: Mapping[LakeBucket, int] | None = None
    """How far the lake is known to hold the table; None: as far as was told."""

    @property
    def held_ends(self) -> Mapping[LakeBucket, int]:
        """Return the ends up to which rows may go from the log."""
        return self.tiered.ends if self.believed is None else self.believed

    def details(self) -> str:
        """Write what is not in columns of its own."""
        node: dict[str, Json] = {
            "tiered": self.tiered.to_json(),
            "tiered_path": self.tiered_path,
            "readable": None if self.readable is None else self.readable.to_json(),
            "readable_path": self.readable_path,
            "standing": self.standing,
            "believed": None
            if self.believed is None
            else TieredOffsets(table_id=self.table_id, ends=self.believed).to_json(),
        }
        return json.dumps(node)


def tiering_record(turn: int, details: str) -> TieringRecord:
    """Read a record as the catalog file holds it."""
    return TieringRecord(turn=turn, **json.loads(details))


def reported_snapshot(
    table_id: int, snapshot_id: int, *, committed_ms: int, details: str
) -> ReportedLakeSnapshot:
    """Read a snapshot as the catalog file holds it."""
    node = json.loads(details)
    readable, believed = node["readable"], node.get("believed")
    return ReportedLakeSnapshot(
        table_id=table_id,
        snapshot_id=snapshot_id,
        committed_ms=committed_ms,
        tiered=offsets_from_json(node["tiered"]),
        tiered_path=node["tiered_path"],
        readable=None if readable is None else offsets_from_json(readable),
        readable_path=node["readable_path"],
        # Before these were noted, every report was believed, and rows may have gone since.
        standing=node.get("standing", "checked"),
        believed=None if believed is None else offsets_from_json(believed).ends,
    )
