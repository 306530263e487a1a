"""The batches of one lane among those of a log: how many of an epoch have landed."""

from headwater.client.epochs.lanes import LaneKey, Position
from headwater.errors import DamagedRangeError
from headwater.rows.log_batch import BatchHeader

TURNS_MAX = 3
"""Turns that one attempt may take; a server forgets a writer for its age, so one is enough."""


class Trail:
    """Follow the batches of a lane from a position on, in the order of the log."""

    def __init__(self, key: LaneKey, start: Position) -> None:
        turns = range(start.turn, start.turn + TURNS_MAX + 1)
        self._key = key
        self._turn_of = {key.writer_id(turn): turn for turn in turns}
        self.next = start
        """The position behind the last batch that was found."""
        self.count = 0
        self.end: int | None = None

    def step(self, header: BatchHeader) -> bool:
        """Look at the next batch of the log, and tell whether it is one that counts."""
        turn = self._turn_of.get(header.writer_id)
        if turn is None:
            return False
        position = Position(turn, header.sequence)
        if position < self.next:
            return False
        if position not in (self.next, Position(turn)):
            raise DamagedRangeError(
                f"The log of {self._key.bucket} holds batch {position.sequence} of sink"
                f" '{self._key.sink}' where {self.next.sequence} should be."
            )
        self.count += 1
        self.next, self.end = position.following, header.end_offset
        return True
