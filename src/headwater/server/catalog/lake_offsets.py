"""How far the buckets of a table are tiered, in the JSON form of Fluss's offsets files."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.model.boundary import LakeBucket
from headwater.model.type_json import Json, document_of, int_of, list_of, object_of

_VERSION = 1
_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredOffsets:
    """Hold the first offset of each bucket that the lake does not hold."""

    table_id: int
    ends: Mapping[LakeBucket, int]
    replaces: bool = False
    """Whether they stand in the place of all that was known before, even if they go back."""

    def to_json(self) -> str:
        """Write the offsets; clients of Fluss pass over the field that is not theirs."""
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
    """Read offsets, or say that they cannot be trusted."""
    try:
        return _offsets(object_of(document_of(text), what="offsets"))
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"Tiered offsets cannot be read: {fault}.") from fault


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
