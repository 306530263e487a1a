"""What the catalog knows of the lake: rounds, reported snapshots, tiered offsets."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.model import LakeBucket
from headwater.model.type_json import Json, document_of, int_of, list_of, object_of

# How far the buckets of a table are tiered, in the JSON form of Fluss's offsets files.

_VERSION = 1
_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredOffsets:
    """The first offset of each bucket that is not in the lake."""

    table_id: int
    ends: Mapping[LakeBucket, int]
    replaces: bool = False
    """Whether they replace everything that was known before, even if they go back."""

    def to_json(self) -> str:
        """Write the offsets; clients of Fluss ignore our additional field."""
        node: dict[str, Json] = {"version": _VERSION, "table_id": self.table_id}
        grouped: dict[int | None, list[Json]] = {}
        for bucket, end in sorted(self.ends.items(), key=_place):
            offsets = grouped.setdefault(bucket.partition_id, [])
            offsets.extend([_UNKNOWN] * (bucket.bucket - len(offsets)))
            offsets.append(end)
        if None in grouped:
            node["bucket_offsets"] = grouped[None]
        elif grouped:
            node["partition_offsets"] = [
                {"partition_id": partition, "bucket_offsets": offsets}
                for partition, offsets in grouped.items()
            ]
        if self.replaces:
            node["headwater_replaces"] = True
        return json.dumps(node, separators=(",", ":"))


def offsets_from_json(text: str) -> TieredOffsets:
    """Parse offsets; malformed ones are an error."""
    try:
        return _offsets(object_of(document_of(text), what="offsets"))
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"Cannot read tiered offsets: {fault}.") from fault


def _offsets(node: Mapping[str, Json]) -> TieredOffsets:
    if int_of(node, "version") != _VERSION:
        raise ValueError(f"their version is {node['version']}")
    ends = dict(_ends(None, list_of(node, "bucket_offsets")))
    for each in list_of(node, "partition_offsets"):
        partition = object_of(each, what="partition")
        partition_id = int_of(partition, "partition_id")
        ends.update(_ends(partition_id, list_of(partition, "bucket_offsets")))
    return TieredOffsets(
        table_id=int_of(node, "table_id"),
        ends=ends,
        replaces=node.get("headwater_replaces") is True,
    )


def _ends(partition_id: int | None, offsets: list[Json]) -> Iterator[tuple[LakeBucket, int]]:
    for bucket, end in enumerate(offsets):
        if not isinstance(end, int) or end < _UNKNOWN:
            raise ValueError(f"bucket {bucket} ends at {end}")
        if end != _UNKNOWN:
            yield LakeBucket(partition_id, bucket), end


def _place(item: tuple[LakeBucket, int]) -> tuple[int, int]:
    bucket, _ = item
    return (-1 if bucket.partition_id is None else bucket.partition_id, bucket.bucket)


# Rounds of tables, and reported snapshots.


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringRecord:
    """What is remembered across restarts of the rounds of one table."""

    turn: int = 0
    """How often the table was handed out; a later turn fences earlier ones."""
    last_tiered_ms: int | None = None
    last_duration_ms: int | None = None
    failures: int = 0
    """Rounds that failed in a row."""
    last_failure: str | None = None
    file_size: int | None = None
    record_count: int | None = None

    def details(self) -> str:
        """Serialise everything but the turn."""
        fields = asdict(self)
        del fields["turn"]
        return json.dumps(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLakeSnapshot:
    """What a tiering service reported of a lake snapshot."""

    table_id: int
    snapshot_id: int
    committed_ms: int
    tiered: TieredOffsets
    tiered_path: str
    readable: TieredOffsets | None = None
    """What can be read at once; None if unknown."""
    readable_path: str | None = None
    standing: str = "checked"
    """How far the report is trusted: checked, unseen or absent."""
    believed: Mapping[LakeBucket, int] | None = None
    """How far the lake is known to have the table; None: as far as was reported."""

    @property
    def held_ends(self) -> Mapping[LakeBucket, int]:
        """The ends up to which rows may be deleted from the log."""
        return self.tiered.ends if self.believed is None else self.believed

    def details(self) -> str:
        """Serialise what has no column of its own."""
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
    """Parse a record of the catalog file."""
    return TieringRecord(turn=turn, **json.loads(details))


def reported_snapshot(
    table_id: int, snapshot_id: int, *, committed_ms: int, details: str
) -> ReportedLakeSnapshot:
    """Parse a snapshot of the catalog file."""
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
        # Before these were recorded, every report was trusted, and rows may have been deleted
        # since.
        standing=node.get("standing", "checked"),
        believed=None if believed is None else offsets_from_json(believed).ends,
    )
