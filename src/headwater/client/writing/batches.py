"""Rows on their way to one bucket: the pieces that callers submit, and the batches they form."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from headwater.client.writing.receipts import UNKNOWN_OFFSET, Delivery, Place
from headwater.errors import (
    CorruptBatchError,
    HeadwaterError,
    RecordTooLargeError,
    RequestError,
)
from headwater.model.lineage import UNKNOWN
from headwater.wire.apis import Api
from headwater.wire.bucket_records import BucketRecords
from headwater.wire.fields import Part


class Payload(Protocol):
    """Be an encoded batch without the numbers that tell batches of a writer apart."""

    def records(self, *, writer_id: int, sequence: int) -> Part:
        """Return the whole batch under these numbers."""
        ...


class Rows(Protocol):
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

    def payload(self, rows: Sequence[Rows]) -> Payload:
        """Encode rows as one batch; this may take long."""
        ...

    def request(
        self, buckets: Sequence[BucketRecords], *, acks: int, timeout_ms: int
    ) -> list[Part]:
        """Encode a request that writes batches."""
        ...

    def answers(self, body: memoryview) -> dict[tuple[int | None, int], Answer]:
        """Read what became of each batch, by partition id and bucket."""
        ...

    def end_offset(self, offset: int, rows: int) -> int:
        """Return where the log ends after so many rows of a batch that was answered with this."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Hold rows of one call for one bucket."""

    rows: Rows
    delivery: Delivery
    place: Place

    def halves(self) -> tuple["Piece", "Piece"]:
        """Cut the rows in two."""
        first, second = self.rows.halves()
        return Piece(first, self.delivery, self.place), Piece(second, self.delivery, self.place)


class Batch:
    """Gather pieces until they are encoded."""

    def __init__(self, lane: Lane, pieces: Sequence[Piece]) -> None:
        self.lane = lane
        self.pieces = list(pieces)
        self.count = sum(piece.rows.count for piece in pieces)
        self.size_bytes = sum(piece.rows.size_bytes for piece in pieces)
        self.payload: Payload | None = None
        # Nothing may be added any more once encoding has begun.
        self.is_sealed = False

    def fits(self, lane: Lane, rows: Rows, *, bytes_max: int, rows_max: int) -> bool:
        """Tell whether rows may join the batch."""
        return (
            not self.is_sealed
            and self.lane is lane
            and self.count + rows.count <= rows_max
            and self.size_bytes + rows.size_bytes <= bytes_max
        )

    def add(self, piece: Piece) -> None:
        """Put rows behind those that are there."""
        assert not self.is_sealed
        self.pieces.append(piece)
        self.count += piece.rows.count
        self.size_bytes += piece.rows.size_bytes

    def divided(self, fault: HeadwaterError) -> Sequence["Batch"]:
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
        return [Batch(self.lane, part) for part in parts]

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
