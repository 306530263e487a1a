"""One bucket of a server that checks sequences, and a network that loses what it carries."""

from collections import defaultdict
from dataclasses import dataclass

from headwater.errors import (
    BucketFencedError,
    DuplicateSequenceError,
    HeadwaterError,
    InvalidValueError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
)
from headwater.write.sequencer import Slot

KEPT_MAX = 5


@dataclass(frozen=True)
class ModelBatch:
    """Hold rows, some of which no server takes."""

    rows: tuple[int, ...]
    bad: frozenset[int] = frozenset()

    def divided(self, fault: HeadwaterError) -> list["ModelBatch"]:
        if len(self.rows) < 2 or not isinstance(fault, InvalidValueError | RecordTooLargeError):
            return []
        middle = len(self.rows) // 2
        return [ModelBatch(self.rows[:middle], self.bad), ModelBatch(self.rows[middle:], self.bad)]


@dataclass(frozen=True)
class Request:
    """Be a batch on its way, or one that arrives after its sender stopped waiting."""

    writer_id: int
    sequence: int
    slot: Slot[ModelBatch]
    batch: ModelBatch


class ModelServer:
    """Take batches in the order of their sequences, and recognise the last few."""

    def __init__(self) -> None:
        self.log: list[tuple[int, ...]] = []
        self._kept: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def take(self, request: Request, *, says_duplicate: bool = False) -> int:
        """Return the offset of a batch, or raise what a server answers instead."""
        if request.batch.bad & set(request.batch.rows):
            raise InvalidValueError("A row is bad.")
        kept = self._kept[request.writer_id]
        for sequence, offset in kept[-KEPT_MAX:]:
            if sequence == request.sequence:
                if says_duplicate:
                    raise DuplicateSequenceError("It is there.")
                return offset
        expected = kept[-1][0] + 1 if kept else 0
        if request.sequence != expected:
            raise OutOfOrderSequenceError(f"Expected {expected}, not {request.sequence}.")
        kept.append((request.sequence, len(self.log)))
        self.log.append(request.batch.rows)
        return len(self.log) - 1

    def take_and_break(self, request: Request) -> None:
        """Write a batch, and fail behind the log as a disk does."""
        self.take(request)
        raise BucketFencedError("The state is behind the log.")

    def forget(self) -> None:
        """Lose count of every writer, as a server does after days."""
        self._kept.clear()
