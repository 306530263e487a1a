"""How far a stream has read, as JSON that stands in checkpoints and that people can read.

    {"table": "shop.orders", "table_id": 3,
     "offsets": {"day=2026-11-16/0": 120, "day=2026-11-16/1": "state"},
     "partitions": {"day=2026-11-16": 7}, "state_read_ms": 1794816000000}

The offset of a bucket is the one that is read next. "state" stands for a bucket of a primary-key
table whose rows were not read yet; they are read all at once, and from then on their changes. A
bucket that is not named has rows that were not there before, and is read from offset 0. Ids of
partitions tell one that was dropped from another of the same name. The moment is that of the last
read of rows by key; in a changelog such rows say that they were written then.

The first micro-batch of a table with a lake reads a view of lake and log, from `"view": "next"` to

    {"table": "shop.orders", "table_id": 3, "offsets": {"0": 120},
     "view": {"snapshot": 4711, "token": "hw1.…"}}

The token names the same rows however often the micro-batch is run; the log goes on at the offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headwater.engines.spark.read import selection
from headwater.engines.spark.read.splits import place_order
from headwater.errors import RequestError
from headwater.model import TableBucket, TableInfo
from headwater.read.offsets import Place

Document: TypeAlias = dict[str, object]
Position: TypeAlias = int | None
"""The offset that is read next, or None where a state is."""

_STATE = "state"
_NEXT = "next"


@dataclass(frozen=True, slots=True)
class FirstView:
    """Name the view that a stream begins with."""

    token: str
    snapshot_id: int | None = None
    """For people who look into a checkpoint; the token has it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Hold what is read next in each bucket of a table."""

    positions: Mapping[Place, Position]
    partition_ids: Mapping[str, int] = field(default_factory=dict)
    state_ms: int | None = None
    is_before_view: bool = False
    """Whether a view of lake and log comes first, and then the logs from where it ends."""
    view: FirstView | None = None
    """The view that was read to get here, in the micro-batch that ends here."""

    def view_since(self, start: "StreamOffset") -> FirstView | None:
        """Return the view that the micro-batch between a start and this end reads, if it does."""
        return self.view if self.view != start.view else None

    def position(self, place: Place, bucket: TableBucket) -> Position:
        """Return what is read next in a bucket; new ones are read from their first row."""
        return self.positions[place] if self.knows(place, bucket) else 0

    def knows(self, place: Place, bucket: TableBucket) -> bool:
        """Tell whether a bucket was there before, and not another one in its place."""
        known = None if place.partition is None else self.partition_ids.get(place.partition)
        return place in self.positions and known == bucket.partition_id

    def bucket(self, place: Place, table_id: int) -> TableBucket:
        """Return the ids of a bucket that is named here."""
        partition = None if place.partition is None else self.partition_ids[place.partition]
        return TableBucket(table_id, place.bucket, partition)


def offset_document(offset: StreamOffset, table: TableInfo) -> Document:
    """Write an offset; the same one is written in the same way, always."""
    keys = table.descriptor.partition_keys
    document: Document = {
        "table": str(table.path),
        "table_id": table.table_id,
        "offsets": {
            selection.place_text(place, keys): _STATE if at is None else at
            for place, at in sorted(offset.positions.items(), key=lambda each: place_order(each[0]))
        },
    }
    if offset.partition_ids:
        document["partitions"] = {
            selection.partition_text(name, keys): number
            for name, number in sorted(offset.partition_ids.items())
        }
    if offset.state_ms is not None:
        document["state_read_ms"] = offset.state_ms
    if offset.is_before_view:
        document["view"] = _NEXT
    elif offset.view is not None:
        document["view"] = {"snapshot": offset.view.snapshot_id, "token": offset.view.token}
    return document


def read_offset(document: Mapping[str, object], table: TableInfo) -> StreamOffset:
    """Read an offset, or say why it is none of this table."""
    if document.get("table_id") != table.table_id:
        raise RequestError(
            f"The checkpoint is that of {document.get('table')} with the id"
            f" {document.get('table_id')}, but {table.path} has the id {table.table_id}: it was"
            " dropped and recreated, or is another table.",
            hint="Start the query with a new checkpoint location.",
        )
    keys = table.descriptor.partition_keys
    return StreamOffset(
        positions={
            selection.place_of(text, keys): _position(at)
            for text, at in _mapping(document, "offsets")
        },
        partition_ids={
            selection.partition_of(text, keys): _whole(number)
            for text, number in _mapping(document, "partitions")
        },
        state_ms=_whole(document["state_read_ms"]) if "state_read_ms" in document else None,
        is_before_view=document.get("view") == _NEXT,
        view=_view(document.get("view")),
    )


def _mapping(document: Mapping[str, object], name: str) -> list[tuple[str, object]]:
    found = document.get(name, {})
    if not isinstance(found, dict):
        raise _malformed(found)
    return list(found.items())


def _view(given: object) -> FirstView | None:
    match given:
        case None | "next":
            return None
        case {"token": str(token), "snapshot": int() | None as snapshot_id}:
            return FirstView(token, snapshot_id)
        case _:
            raise _malformed(given)


def _position(given: object) -> Position:
    return None if given == _STATE else _whole(given)


def _whole(given: object) -> int:
    if not isinstance(given, int):
        raise _malformed(given)
    return given


def _malformed(given: object) -> RequestError:
    return RequestError(
        f"The checkpoint holds {given!r}, which is not an offset.",
        hint="Start the query with a new checkpoint location.",
    )
