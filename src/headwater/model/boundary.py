"""The boundary of a lake snapshot: which offsets of each bucket the lake table contains."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.model.bucket import OffsetRange
from headwater.model.type_json import Json, document_of, int_of, list_of, object_of, text_of

BOUNDARY_PROPERTY = "headwater.boundary"
_VERSION = 1


@dataclass(frozen=True, slots=True, order=True)
class LakeBucket:
    """A bucket within one table."""

    partition_id: int | None
    """An id rather than a name: a partition that is dropped and recreated starts its offsets again.
    """
    bucket: int


@dataclass(frozen=True, slots=True, order=True)
class TieringEpoch:
    """Whose turn it is to tier a table; a later turn fences earlier ones."""

    coordinator: int
    """Grows when a coordinator starts counting turns again."""
    turn: int


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """Distinguishes tables that had the same name, or the same id in another storage."""

    storage: str
    table_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Which offsets of each bucket a lake snapshot contains, and who put them there."""

    table: TableIdentity
    epoch: TieringEpoch
    round_id: str
    """Identifies the round, so that one whose outcome is unknown can be found."""
    ranges: Mapping[LakeBucket, OffsetRange] = field(default_factory=dict)
    partitions: Mapping[int, str] = field(default_factory=dict)
    """The names of the partitions that have ranges."""
    written_by: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Which incarnation wrote the last row of each range, if known."""

    def end(self, bucket: LakeBucket) -> int | None:
        """Return a bucket's first offset that is not in the lake; None if the lake has no rows."""
        held = self.ranges.get(bucket)
        return None if held is None else held.end

    def to_json(self) -> str:
        """Serialise the boundary for the properties of a lake snapshot."""
        grouped: dict[int | None, list[Json]] = {}
        for bucket, held in sorted(self.ranges.items(), key=_place):
            ranges = grouped.setdefault(bucket.partition_id, [])
            ranges.extend([None] * (bucket.bucket - len(ranges)))
            ranges.append([held.start, held.end])
        partitions: list[Json] = [
            {"id": partition, "name": self.partitions[partition], "buckets": ranges}
            for partition, ranges in grouped.items()
            if partition is not None
        ]
        node: dict[str, Json] = {
            "version": _VERSION,
            "storage": self.table.storage,
            "table_id": self.table.table_id,
            "epoch": [self.epoch.coordinator, self.epoch.turn],
            "round": self.round_id,
            "buckets": grouped.get(None, []),
            "partitions": partitions,
        }
        if self.written_by:
            # Older versions ignore it.
            node["written_by"] = [
                [bucket.partition_id, bucket.bucket, incarnation]
                for bucket, incarnation in sorted(self.written_by.items(), key=_order)
                if bucket in self.ranges
            ]
        return json.dumps(node, separators=(",", ":"))


def boundary_from_json(text: str) -> Boundary:
    """Parse a boundary from the properties of a lake snapshot; reject one that is damaged."""
    try:
        node = object_of(document_of(text), what="boundary")
        if int_of(node, "version") != _VERSION:
            raise CorruptFileError(
                f"The boundary of a lake snapshot has version {node['version']}, which is not "
                "supported.",
                hint="A newer version of Headwater wrote it; use that version.",
            )
        return _boundary(node)
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(
            f"The boundary of a lake snapshot cannot be read: {fault}."
        ) from fault


def _boundary(node: Mapping[str, Json]) -> Boundary:
    match list_of(node, "epoch"):
        case [int(coordinator), int(turn)]:
            epoch = TieringEpoch(coordinator, turn)
        case other:
            raise ValueError(f"its epoch is {other}")
    ranges = dict(_ranges(None, list_of(node, "buckets")))
    names: dict[int, str] = {}
    for each in list_of(node, "partitions"):
        partition = object_of(each, what="partition")
        partition_id = int_of(partition, "id")
        names[partition_id] = text_of(partition, "name")
        ranges.update(_ranges(partition_id, list_of(partition, "buckets")))
    return Boundary(
        table=TableIdentity(text_of(node, "storage"), int_of(node, "table_id")),
        epoch=epoch,
        round_id=text_of(node, "round"),
        ranges=ranges,
        partitions=names,
        written_by=dict(_written(list_of(node, "written_by") if "written_by" in node else [])),
    )


def _written(listed: list[Json]) -> Iterable[tuple[LakeBucket, int]]:
    for each in listed:
        match each:
            case [None | int() as partition_id, int(bucket), int(incarnation)]:
                yield LakeBucket(partition_id, bucket), incarnation
            case _:
                raise ValueError(f"{each} is not a bucket and its writer")


def _ranges(
    partition_id: int | None, ranges: list[Json]
) -> Iterable[tuple[LakeBucket, OffsetRange]]:
    for bucket, held in enumerate(ranges):
        match held:
            case None:
                continue
            case [int(start), int(end)] if 0 <= start <= end:
                yield LakeBucket(partition_id, bucket), OffsetRange(start, end)
            case _:
                raise ValueError(f"the range of bucket {bucket} is {held}")


def _order(item: tuple[LakeBucket, int]) -> tuple[int, int]:
    bucket, _ = item
    return (-1 if bucket.partition_id is None else bucket.partition_id, bucket.bucket)


def _place(item: tuple[LakeBucket, OffsetRange]) -> tuple[int, int]:
    bucket, _ = item
    return (-1 if bucket.partition_id is None else bucket.partition_id, bucket.bucket)


def extended(
    held: Boundary,
    tiered: Mapping[LakeBucket, OffsetRange],
    *,
    epoch: TieringEpoch,
    round_id: str,
    partitions: Mapping[int, str],
    written_by: Mapping[LakeBucket, int] | None = None,
) -> Boundary:
    """Return the boundary after a round, whose ranges continue where the existing ones end."""
    ranges = dict(held.ranges)
    for bucket, added in tiered.items():
        before = ranges.get(bucket)
        assert before is None or before.end == added.start, (bucket, before, added)
        ranges[bucket] = OffsetRange(added.start if before is None else before.start, added.end)
    return replace(
        held,
        epoch=epoch,
        round_id=round_id,
        ranges=ranges,
        partitions={**held.partitions, **partitions},
        written_by={**held.written_by, **(written_by or {})},
    )
