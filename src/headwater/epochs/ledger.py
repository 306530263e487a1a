"""The ledger of sinks: which epochs are finished, and where the batches of others may lie.

A lane is the way of one task's rows into one bucket; each has a row in the ledger. It is written
when the lane begins and after every epoch; the aggregation merge engine keeps a write that comes
late from turning anything back:

| column | folded by | meaning |
|---|---|---|
| begin_offset | first value | where the log ended before the first batch of the lane |
| epoch | max | the last epoch that was finished |
| position | max | the number of the next batch: turn * 2**32 + sequence |
| end_offset | max | where the log stood after the last batch of that epoch |

A second row, under the lane `-1 - lane`, tells which epoch began last and where the log ended
before its first batch. It is written with the first epoch of a lane and with every epoch that does
not follow the last finished one, so that rows of a lost epoch are not taken for rows of a later one
after the storage was restored from a copy. Lanes of earlier versions get theirs when they finish
their next epoch.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.cluster.admin import ensure_table
from headwater.cluster.cluster import Cluster
from headwater.config.options import DELETE_BEHAVIOR, LOG_TTL, MERGE_ENGINE
from headwater.errors import DamagedRangeError
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.arrow import arrow_schema
from headwater.model.bucket import COMPUTED_BIT, LogPosition, TableBucket
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import BigIntType, DataType, IntType, StringType
from headwater.read.lookup import TableLookups
from headwater.rows.log_batch import BatchHeader
from headwater.write.pipeline import Upserter
from headwater.write.target import WriteContext

# Lanes: the way of one task's rows into one bucket, and the numbers of its batches.

SEQUENCE_MAX = 2**31 - 1
_SEQUENCE_BITS = 32
_ID_BYTES = 8
# A turn is left long before its numbers run out: no epoch has that many batches.
_SEQUENCES_SPARE = 1 << 24


@dataclass(frozen=True, slots=True, order=True)
class LanePosition:
    """A batch's number in a lane; a new turn begins when a server has forgotten the last one."""

    turn: int = 0
    sequence: int = 0

    @property
    def packed(self) -> int:
        """One integer that grows with every batch."""
        return self.turn << _SEQUENCE_BITS | self.sequence

    @classmethod
    def unpacked(cls, packed: int) -> "LanePosition":
        """Inverse of `packed`."""
        return cls(packed >> _SEQUENCE_BITS, packed & ((1 << _SEQUENCE_BITS) - 1))

    @property
    def following(self) -> "LanePosition":
        """Position of the next batch."""
        return LanePosition(self.turn, self.sequence + 1)

    @property
    def next_turn(self) -> "LanePosition":
        """First position of the next turn."""
        return LanePosition(self.turn + 1)

    @property
    def with_room(self) -> "LanePosition":
        """This position, or the next turn if few numbers are left in this one."""
        return self.next_turn if self.sequence > SEQUENCE_MAX - _SEQUENCES_SPARE else self


@dataclass(frozen=True, slots=True)
class LaneKey:
    """A lane: rows of one sink and task for one bucket."""

    sink: str
    bucket: TableBucket
    lane: int

    @property
    def begun(self) -> "LaneKey":
        """Return the key under which the ledger tells which epoch began last, and where."""
        return LaneKey(self.sink, self.bucket, -1 - self.lane)

    def writer_id(self, turn: int) -> int:
        """The writer id of a turn, computed identically by every attempt."""
        bucket = self.bucket
        numbers = (bucket.table_id, bucket.partition_id, bucket.bucket, self.lane, turn)
        text = "/".join(("headwater sink", *map(str, numbers), self.sink))
        digest = hashlib.blake2b(text.encode(), digest_size=_ID_BYTES).digest()
        return int.from_bytes(digest, "little") & (COMPUTED_BIT - 1) | COMPUTED_BIT


# Finding the batches of one lane in a log.

TURNS_MAX = 3
"""Turns that one attempt may use; a server forgets a writer by age, so one is usually enough."""


class Trail:
    """Follows the batches of a lane from a position on, in log order."""

    def __init__(self, key: LaneKey, start: LanePosition) -> None:
        turns = range(start.turn, start.turn + TURNS_MAX + 1)
        self._key = key
        self._turn_of = {key.writer_id(turn): turn for turn in turns}
        self.next = start
        """The position after the last batch found."""
        self.count = 0
        self.end: int | None = None

    def step(self, header: BatchHeader) -> bool:
        """Examine the next batch of the log, and return whether it counts."""
        turn = self._turn_of.get(header.writer_id)
        if turn is None:
            return False
        position = LanePosition(turn, header.sequence)
        if position < self.next:
            return False
        if position not in (self.next, LanePosition(turn)):
            raise DamagedRangeError(
                f"The log of {self._key.bucket} holds batch {position.sequence} of sink "
                f"'{self._key.sink}', but {self.next.sequence} was expected."
            )
        self.count += 1
        self.next, self.end = position.following, header.end_offset
        return True


# The ledger table and its rows.

SINKS = TablePath("headwater", "sinks")
BUCKET_KEY = ("sink", "table_id", "partition_id", "bucket")
KEY = (*BUCKET_KEY, "lane")
BUCKET_COUNT = 4
NO_EPOCH = -1
_FIRST = LanePosition()
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
class LaneStanding:
    """How far a lane is; one that only began has finished no epoch."""

    begin: int
    epoch: int = NO_EPOCH
    position: LanePosition = _FIRST
    end: int | None = None

    @property
    def known_end(self) -> int:
        """An offset after everything in the finished epochs."""
        return self.begin if self.end is None else self.end


def key_values(key: LaneKey) -> dict[str, object]:
    """Key columns of a lane."""
    partition_id = key.bucket.partition_id
    return {
        "sink": key.sink,
        "table_id": key.bucket.table_id,
        "partition_id": _NO_PARTITION if partition_id is None else partition_id,
        "bucket": key.bucket.bucket,
        "lane": key.lane,
    }


def row_values(key: LaneKey, standing: LaneStanding) -> dict[str, object]:
    """The row of a lane; unknown values leave what is stored."""
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
) -> LaneStanding:
    """Parse the columns of a row."""
    return LaneStanding(
        begin=begin_offset,
        epoch=NO_EPOCH if epoch is None else epoch,
        position=LanePosition.unpacked(position or 0),
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


class SinkLedger:
    """Reads and writes the rows of lanes; a write returns when it is durable."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: WriteContext) -> None:
        self._schema = arrow_schema(table.schema)
        self._lookups = TableLookups(cluster, table)
        self._upserter = Upserter(cluster, table, writers)

    @classmethod
    async def open(cls, cluster: Cluster, writers: WriteContext) -> "SinkLedger":
        """Open the ledger of a storage; it is created for the first sink."""
        table = await ensure_table(cluster, SINKS, sinks_descriptor(), whose="Sinks")
        return cls(cluster, table, writers)

    async def look_up(self, keys: Sequence[LaneKey]) -> dict[LaneKey, LaneStanding]:
        """Look up how far lanes are; those that never began are left out."""
        if not keys:
            return {}
        by_values = {tuple(key_values(key).values()): key for key in keys}
        found = await self._lookups.lookup(self._batch(map(key_values, keys), KEY))
        return {by_values[tuple(row[name] for name in KEY)]: _standing(row) for row in _rows(found)}

    async def write(
        self, standings: Mapping[LaneKey, LaneStanding], *, only_if: Sequence[LogPosition] = ()
    ) -> None:
        """Record how far lanes are, provided the storage still has these logs."""
        if standings:
            rows = [row_values(key, standing) for key, standing in standings.items()]
            await self._upserter.upsert([self._batch(rows, self._schema.names)], only_if=only_if)

    async def floor(self, key: LaneKey, epoch: int) -> int:
        """Find an offset before which a lane's bucket has nothing of an epoch.

        Whatever a lane wrote for an earlier epoch lies before everything of this one.
        """
        values = {name: key_values(key)[name] for name in BUCKET_KEY}
        found = await self._lookups.prefix_lookup(self._batch([values], BUCKET_KEY))
        standings = [_standing(row) for row in _rows(found)]
        return max(
            (each.end or 0 for each in standings if each.epoch < epoch),
            default=0,
        )

    def _batch(self, rows: Iterable[Mapping[str, object]], names: Sequence[str]) -> pa.RecordBatch:
        schema = pa.schema([self._schema.field(name) for name in names])
        return pa.RecordBatch.from_pylist(list(rows), schema)


def _rows(found: pa.Table) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = found.to_pylist()
    return rows


def _standing(row: Mapping[str, int]) -> LaneStanding:
    return standing_of(row["begin_offset"], row["epoch"], row["position"], row["end_offset"])
