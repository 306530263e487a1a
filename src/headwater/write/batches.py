"""Rows on their way to one bucket: shared out, cut to size, and joined to batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, Self, TypeVar

from headwater.config.client import ClientSettings
from headwater.errors import CorruptBatchError, HeadwaterError, RecordTooLargeError, RequestError
from headwater.model.bucket import UNKNOWN
from headwater.runtime.clock import random_fraction
from headwater.wire.apis import Api
from headwater.wire.messages import Part
from headwater.wire.write import BucketRecords, ProduceRequest, PutRequest
from headwater.write.receipts import UNKNOWN_OFFSET, Delivery, PlaceKey

# Rows on their way to one bucket: the pieces that callers submit, and the batches they form.


class Payload(Protocol):
    """Be an encoded batch without the numbers that tell batches of a writer apart."""

    def records(self, *, writer_id: int, sequence: int) -> Part:
        """Return the whole batch under these numbers."""
        ...


class WriteRows(Protocol):
    """Be rows of one bucket."""

    @property
    def count(self) -> int:
        """Return how many there are."""
        ...

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes they take."""
        ...

    def halves(self) -> tuple[Self, Self]:
        """Cut them in two."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what a server says about one bucket of a request."""

    offset: int
    fault: HeadwaterError | None = None
    incarnation: int = UNKNOWN


class Lane(Protocol):
    """Know how rows of one table and schema are written; rows of one lane may share a batch."""

    @property
    def table_id(self) -> int:
        """Return the table."""
        ...

    @property
    def api(self) -> Api:
        """Return the API that writes the rows."""
        ...

    def payload(self, rows: Sequence[WriteRows]) -> Payload:
        """Encode rows as one batch; this may take long."""
        ...

    def request(
        self, buckets: Sequence[BucketRecords], *, acks: int, timeout_ms: int
    ) -> list[Part]:
        """Encode a request that writes batches."""
        ...

    def request_of(
        self, buckets: Sequence[BucketRecords], *, acks: int, timeout_ms: int
    ) -> ProduceRequest | PutRequest:
        """Return a request that writes batches, before it is encoded."""
        ...

    def answers(self, body: memoryview) -> dict[tuple[int | None, int], Answer]:
        """Read what became of each batch, by partition id and bucket."""
        ...

    def end_offset(self, offset: int, rows: int) -> int:
        """Return where the log ends after so many rows of a batch that was answered with this."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class WritePiece:
    """Hold rows of one call for one bucket."""

    rows: WriteRows
    delivery: Delivery
    place: PlaceKey

    def halves(self) -> tuple["WritePiece", "WritePiece"]:
        """Cut the rows in two."""
        first, second = self.rows.halves()
        return WritePiece(first, self.delivery, self.place), WritePiece(
            second, self.delivery, self.place
        )


class WriteBatch:
    """Gather pieces until they are encoded."""

    def __init__(
        self, lane: Lane, pieces: Sequence[WritePiece], *, payload: Payload | None = None
    ) -> None:
        self.lane = lane
        self.pieces = list(pieces)
        self.count = sum(piece.rows.count for piece in pieces)
        self.size_bytes = sum(piece.rows.size_bytes for piece in pieces)
        self.payload = payload
        # Nothing may be added any more once encoding has begun.
        self.is_sealed = payload is not None
        # What it takes of the room for batches; one that was encoded before took none.
        self.room_bytes = self.size_bytes if payload is None else 0

    def fits(self, lane: Lane, rows: WriteRows, *, bytes_max: int, rows_max: int) -> bool:
        """Tell whether rows may join the batch."""
        return (
            not self.is_sealed
            and self.lane is lane
            and self.count + rows.count <= rows_max
            and self.size_bytes + rows.size_bytes <= bytes_max
        )

    def add(self, piece: WritePiece) -> None:
        """Put rows behind those that are there."""
        assert not self.is_sealed
        self.pieces.append(piece)
        self.count += piece.rows.count
        self.size_bytes += piece.rows.size_bytes
        self.room_bytes += piece.rows.size_bytes

    def divided(self, fault: HeadwaterError) -> Sequence["WriteBatch"]:
        """Return halves, so that rows fail only for what is wrong with themselves."""
        if not isinstance(fault, RequestError | CorruptBatchError) or fault.retriable:
            return ()
        if len(self.pieces) > 1:
            middle = len(self.pieces) // 2
            parts = self.pieces[:middle], self.pieces[middle:]
        elif isinstance(fault, RecordTooLargeError) and self.count > 1:
            first, second = self.pieces[0].halves()
            parts = [first], [second]
        else:
            return ()
        divided = [WriteBatch(self.lane, part) for part in parts]
        for each in divided:
            each.room_bytes = min(each.room_bytes, self.room_bytes)
        return divided

    def written(self, offset: int | None) -> None:
        """Tell every caller where its rows are."""
        rows, is_known = 0, offset is not None and offset >= 0
        for piece in self.pieces:
            rows += piece.rows.count
            end = self.lane.end_offset(offset or 0, rows) if is_known else UNKNOWN_OFFSET
            piece.delivery.written(piece.place, piece.rows.count, end)

    def failed(self, fault: HeadwaterError) -> None:
        """Tell every caller that its rows failed."""
        for piece in self.pieces:
            piece.delivery.failed(piece.place, piece.rows.count, fault)


R = TypeVar("R", bound=WriteRows)
# How much larger than wished a piece may be before it is cut again.
_SKEW_MAX = 2


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows:
    """Hold rows for one bucket, or for any bucket of a partition."""

    lane: Lane
    partition: str | None
    bucket: int | None
    rows: WriteRows
    makes_partition: bool = True


def cut(rows: R, settings: ClientSettings, *, slice_of: Callable[[R, int, int], R]) -> Iterator[R]:
    """Yield pieces of about the wished size, in order."""
    count = max(
        -(-rows.size_bytes // settings.batch_bytes_max), -(-rows.count // settings.batch_rows_max)
    )
    count = min(count, rows.count)
    if count <= 1:
        yield rows
        return
    bounds = [rows.count * at // count for at in range(count + 1)]
    for start, end in pairwise(bounds):
        yield from _evened(slice_of(rows, start, end), settings.batch_bytes_max)


def _evened(rows: R, bytes_max: int) -> Iterator[R]:
    """Cut on where few rows hold most bytes."""
    if rows.count <= 1 or rows.size_bytes <= bytes_max * _SKEW_MAX:
        yield rows
        return
    for half in rows.halves():
        yield from _evened(half, bytes_max)


class BucketTurns:
    """Choose buckets for rows that may go to any: one stays chosen while its batch has room."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bucket = int(random_fraction() * count)

    def choose(self, has_room: Callable[[int], bool]) -> int:
        """Return the bucket for the next rows."""
        if not has_room(self._bucket):
            self._bucket = (self._bucket + 1) % self._count
        return self._bucket
