"""Rows of the table in which cursors are kept, and the table itself.

A row belongs to a slot of a group: a bucket that is read (one row per generation of owners), a
member, or the group as a whole. The aggregation merge engine makes each write a safe one:

| column | folded by | therefore |
|---|---|---|
| owner | first value | who writes first owns the generation, all others lose |
| start | first value | the first member decides where a group begins |
| position | max | a write that arrives late cannot turn a position back |
| heartbeat | max | the same |
| released | or | a generation is never taken up again |
| lease_ms, note, written_ms | last value | for the eyes of others |
"""

from dataclasses import dataclass

from headwater.config.options import DELETE_BEHAVIOR, LOG_TTL, MERGE_ENGINE
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.descriptor import TableDescriptor
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.types import BigIntType, BooleanType, DataType, StringType

CURSORS = TablePath("headwater", "cursors")
GROUP_KEY = ("cursor", "table_path")
SLOT_KEY = ("slot", "generation")
BUCKET_COUNT = 4

_FOLDED: tuple[tuple[str, DataType, AggregateKind], ...] = (
    ("owner", StringType(), AggregateKind.FIRST_VALUE_IGNORE_NULLS),
    ("start", BigIntType(), AggregateKind.FIRST_VALUE_IGNORE_NULLS),
    ("position", BigIntType(), AggregateKind.MAX),
    ("released", BooleanType(), AggregateKind.BOOL_OR),
    ("heartbeat", BigIntType(), AggregateKind.MAX),
    ("lease_ms", BigIntType(), AggregateKind.LAST_VALUE_IGNORE_NULLS),
    ("note", StringType(), AggregateKind.LAST_VALUE_IGNORE_NULLS),
    ("written_ms", BigIntType(), AggregateKind.LAST_VALUE_IGNORE_NULLS),
)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Name a group: a cursor over one table."""

    cursor: str
    table_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRow:
    """Hold one row of a group; None in a write leaves what is there."""

    slot: str
    generation: int = 0
    owner: str | None = None
    start: int | None = None
    position: int | None = None
    released: bool | None = None
    heartbeat: int | None = None
    lease_ms: int | None = None
    note: str | None = None
    written_ms: int | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Return what tells the rows of a group apart."""
        return self.slot, self.generation


def cursors_descriptor() -> TableDescriptor:
    """Describe the table that holds all cursors of a storage."""
    key = (*GROUP_KEY, *SLOT_KEY)
    keys = tuple(
        Column(
            name=name,
            type=(BigIntType() if name == "generation" else StringType()).not_null(),
        )
        for name in key
    )
    folded = tuple(
        Column(name=name, type=kind, aggregate=AggregateFunction(function))
        for name, kind, function in _FOLDED
    )
    return TableDescriptor(
        schema=with_column_ids(Schema(columns=(*keys, *folded), primary_key=key)),
        comment="Positions of cursors, and the members that share them.",
        # All rows of a group in one bucket: one order of writes, and one answer to a reader.
        bucket_keys=GROUP_KEY,
        bucket_count=BUCKET_COUNT,
        properties={
            MERGE_ENGINE.name: "aggregation",
            DELETE_BEHAVIOR.name: "allow",
            # Heartbeats are of no interest to those who follow changes.
            LOG_TTL.name: "1 d",
        },
    )
