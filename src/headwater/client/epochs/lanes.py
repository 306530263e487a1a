"""Lanes: the way of one task's rows into one bucket, and the numbers that its batches bear."""

import hashlib
from dataclasses import dataclass

from headwater.model.bucket import TableBucket
from headwater.model.writer_id import COMPUTED_BIT

SEQUENCE_MAX = 2**31 - 1
_SEQUENCE_BITS = 32
_ID_BYTES = 8
# A turn is left long before its numbers run out, as no epoch is cut into so many batches.
_SEQUENCES_SPARE = 1 << 24


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Number a batch of a lane; a new turn begins when a server has forgotten the last one."""

    turn: int = 0
    sequence: int = 0

    @property
    def packed(self) -> int:
        """Return one number that grows with every batch."""
        return self.turn << _SEQUENCE_BITS | self.sequence

    @classmethod
    def unpacked(cls, packed: int) -> "Position":
        """Return the position that was packed."""
        return cls(packed >> _SEQUENCE_BITS, packed & ((1 << _SEQUENCE_BITS) - 1))

    @property
    def following(self) -> "Position":
        """Return the position of the next batch."""
        return Position(self.turn, self.sequence + 1)

    @property
    def next_turn(self) -> "Position":
        """Return the first position of the next turn."""
        return Position(self.turn + 1)

    @property
    def with_room(self) -> "Position":
        """Return this position, or the next turn where few numbers are left in this one."""
        return self.next_turn if self.sequence > SEQUENCE_MAX - _SEQUENCES_SPARE else self


@dataclass(frozen=True, slots=True)
class LaneKey:
    """Name a lane: rows of one sink and task for one bucket."""

    sink: str
    bucket: TableBucket
    lane: int

    def writer_id(self, turn: int) -> int:
        """Return the writer id of a turn, the same for everybody who asks."""
        bucket = self.bucket
        numbers = (bucket.table_id, bucket.partition_id, bucket.bucket, self.lane, turn)
        text = "/".join(("headwater sink", *map(str, numbers), self.sink))
        digest = hashlib.blake2b(text.encode(), digest_size=_ID_BYTES).digest()
        return int.from_bytes(digest, "little") & (COMPUTED_BIT - 1) | COMPUTED_BIT
