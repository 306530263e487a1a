"""Rows of the table in which sinks note how far they are, and the table itself.

A row belongs to a lane. It is written when the lane begins and after every epoch; the aggregation
merge engine keeps a write that comes late from turning anything back:

| column | folded by | meaning |
|---|---|---|
| begin_offset | first value | where the log ended before the first batch of the lane |
| epoch | max | the last epoch that was finished |
| position | max | the number of the next batch: turn * 2**32 + sequence |
| end_offset | max | where the log stood after the last batch of that epoch |
"""

from dataclasses import dataclass

from headwater.client.epochs.lanes import LaneKey, Position
from headwater.config.options import DELETE_BEHAVIOR, LOG_TTL, MERGE_ENGINE
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.descriptor import TableDescriptor
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.types import BigIntType, DataType, IntType, StringType

SINKS = TablePath("headwater", "sinks")
BUCKET_KEY = ("sink", "table_id", "partition_id", "bucket")
KEY = (*BUCKET_KEY, "lane")
BUCKET_COUNT = 4
NO_EPOCH = -1
_FIRST = Position()
_NO_PARTITION = -1

_KEY_TYPES: tuple[DataType, ...] = (
    StringType(),
    BigIntType(),
    BigIntType(),
    IntType(),
    IntType(),
)
_FOLDED = {
    "begin_offset": AggregateKind.FIRST_VALUE_IGNORE_NULLS,
    "epoch": AggregateKind.MAX,
    "position": AggregateKind.MAX,
    "end_offset": AggregateKind.MAX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Hold how far a lane is; one that was only begun has finished no epoch."""

    begin: int
    epoch: int = NO_EPOCH
    position: Position = _FIRST
    end: int | None = None

    @property
    def known_end(self) -> int:
        """Return an offset behind everything of the epochs that are finished."""
        return self.begin if self.end is None else self.end


def key_values(key: LaneKey) -> dict[str, object]:
    """Return the key columns of a lane."""
    partition_id = key.bucket.partition_id
    return {
        "sink": key.sink,
        "table_id": key.bucket.table_id,
        "partition_id": _NO_PARTITION if partition_id is None else partition_id,
        "bucket": key.bucket.bucket,
        "lane": key.lane,
    }


def row_values(key: LaneKey, standing: Standing) -> dict[str, object]:
    """Return the row of a lane; what is not known yet leaves what is there."""
    is_begun = standing.epoch == NO_EPOCH
    return {
        **key_values(key),
        "begin_offset": standing.begin,
        "epoch": None if is_begun else standing.epoch,
        "position": standing.position.packed or None,
        "end_offset": standing.end,
    }


def standing_of(
    begin_offset: int, epoch: int | None, position: int | None, end_offset: int | None
) -> Standing:
    """Return what the columns of a row say."""
    return Standing(
        begin=begin_offset,
        epoch=NO_EPOCH if epoch is None else epoch,
        position=Position.unpacked(position or 0),
        end=end_offset,
    )


def sinks_descriptor() -> TableDescriptor:
    """Describe the table that holds all sinks of a storage."""
    keys = tuple(
        Column(name=name, type=kind.not_null()) for name, kind in zip(KEY, _KEY_TYPES, strict=True)
    )
    folded = tuple(
        Column(name=name, type=BigIntType(), aggregate=AggregateFunction(function))
        for name, function in _FOLDED.items()
    )
    return TableDescriptor(
        schema=with_column_ids(Schema(columns=(*keys, *folded), primary_key=KEY)),
        comment="Epochs that sinks have finished, and where.",
        # All lanes that write to one bucket together, as a reader asks for them together.
        bucket_keys=BUCKET_KEY,
        bucket_count=BUCKET_COUNT,
        properties={
            MERGE_ENGINE.name: "aggregation",
            DELETE_BEHAVIOR.name: "allow",
            LOG_TTL.name: "1 d",
        },
    )
