"""Rows of logs that were read before, so that the next read fetches only what came since.

Offsets never change what they hold, so that nothing in here can be wrong; it can only be too old
or too new for a position, and is passed over then.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.reading.log_batch import LogBatch
from headwater.client.union.merge.fold import TailFold
from headwater.client.union.merge.folded import Folded
from headwater.client.union.split import UnionSplit
from headwater.model.bucket import OffsetRange

# Pieces of fewer rows are put together, so that a tail that grows by small steps stays quick.
_PIECE_ROWS = 65_536
_GROWTH = 2


@dataclass(frozen=True, slots=True)
class TailKey:
    """Name a log under one schema; the partition by its id, as names come again."""

    table_id: int
    schema_id: int
    partition_id: int | None
    bucket: int


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Hold rows of a log with their offsets, ascending."""

    rows: pa.RecordBatch
    offsets: npt.NDArray[np.int64]

    @property
    def byte_count(self) -> int:
        """Return the bytes that it takes."""
        return int(self.rows.nbytes) + self.offsets.nbytes

    def within(self, wanted: OffsetRange) -> "Piece":
        """Return the rows between two offsets."""
        start, end = np.searchsorted(self.offsets, [wanted.start, wanted.end])
        if end - start == len(self.offsets):
            return self
        return Piece(self.rows.slice(start, end - start), self.offsets[start:end])


@dataclass(frozen=True, slots=True, eq=False)
class LoggedTail:
    """Hold the rows of a log between two offsets."""

    held: OffsetRange
    columns: frozenset[str]
    pieces: tuple[Piece, ...] = ()

    @property
    def byte_count(self) -> int:
        """Return the bytes that the rows take."""
        return sum(piece.byte_count for piece in self.pieces)

    def reaches(self, wanted: OffsetRange, columns: Collection[str]) -> bool:
        """Tell whether the rows from a start on are here, as far as they go."""
        return wanted.start in self.held and self.columns.issuperset(columns)

    def rows(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows between two offsets, as far as they are here."""
        for piece in self.pieces:
            part = piece.within(wanted)
            if part.rows.num_rows:
                yield part.rows

    def cut(self, start: int) -> "LoggedTail":
        """Return the tail from an offset on, since the lake holds what came before it."""
        if start == self.held.start:
            return self
        wanted = OffsetRange(start, self.held.end)
        parts = [piece.within(wanted) for piece in self.pieces]
        return replace(
            self, held=wanted, pieces=tuple(part for part in parts if part.rows.num_rows)
        )

    def extended(self, batches: Collection[LogBatch], *, end: int) -> "LoggedTail":
        """Return the tail with what comes behind it."""
        added = [Piece(batch.rows, batch.offsets) for batch in batches if batch.rows.num_rows]
        pieces = _fewer([*self.pieces, *added])
        return replace(self, held=OffsetRange(self.held.start, end), pieces=tuple(pieces))


@dataclass(frozen=True, slots=True, eq=False)
class FoldedTail:
    """Hold what the changes of one bucket leave between two offsets, and which columns of it."""

    folded: Folded
    offsets: OffsetRange
    columns: frozenset[str]
    fold: TailFold
    """What goes on from there, by whoever has taken the tail out of the cache."""

    @property
    def byte_count(self) -> int:
        """Return the bytes that the changes take in memory."""
        return self.folded.byte_count

    def holds(self, columns: Collection[str], split: UnionSplit) -> bool:
        """Tell whether these columns of a split are here."""
        return self.offsets == split.log and self.columns.issuperset(columns)

    def leads_to(self, columns: Collection[str], split: UnionSplit) -> bool:
        """Tell whether a split is what is here, and what came since."""
        assert split.log is not None
        return (
            self.offsets.start == split.log.start
            and self.offsets.end <= split.log.end
            and self.columns.issuperset(columns)
        )


Tail: TypeAlias = LoggedTail | FoldedTail


class TailCache:
    """Keep tails up to a number of bytes, those that were used last."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._held: OrderedDict[TailKey, tuple[Tail, int]] = OrderedDict()
        self._bytes = 0

    @property
    def byte_count(self) -> int:
        """Return the bytes of all that is kept."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._held)

    def logged(self, key: TailKey) -> LoggedTail | None:
        """Return the rows that are kept of a log."""
        found = self._get(key)
        return found if isinstance(found, LoggedTail) else None

    def folded(self, key: TailKey) -> FoldedTail | None:
        """Return the changes that are kept of a log."""
        found = self._get(key)
        return found if isinstance(found, FoldedTail) else None

    def put(self, key: TailKey, tail: Tail) -> None:
        """Keep a tail in the place of what was kept of its log, if it is not too large."""
        self.drop(key)
        size = tail.byte_count
        if size > self.bytes_max or (isinstance(tail, FoldedTail) and tail.folded.is_spilled):
            return
        self._held[key] = (tail, size)
        self._bytes += size
        while self._bytes > self.bytes_max:
            self.drop(next(iter(self._held)))

    def drop(self, key: TailKey) -> None:
        """Keep nothing of a log."""
        _, size = self._held.pop(key, (None, 0))
        self._bytes -= size

    def _get(self, key: TailKey) -> Tail | None:
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]


def _fewer(pieces: Sequence[Piece]) -> list[Piece]:
    """Put small pieces together, such that each row is copied a few times at most."""
    found: list[Piece] = []
    run: list[Piece] = []
    for piece in pieces:
        if len(piece.offsets) >= _PIECE_ROWS:
            found += [*_joined(run), piece]
            run = []
        else:
            run.append(piece)
    return found + _joined(run)


def _joined(run: Sequence[Piece]) -> list[Piece]:
    """Join the last pieces, such that each that is left is much larger than the next."""
    at, size = len(run), 0
    while at and (not size or len(run[at - 1].offsets) < _GROWTH * size):
        at -= 1
        size += len(run[at].offsets)
    return [*run[:at], *_together(run[at:])]


def _together(pieces: Sequence[Piece]) -> Sequence[Piece]:
    if len(pieces) <= 1:
        return pieces
    rows = pa.concat_batches([piece.rows for piece in pieces])
    return [Piece(rows, np.concatenate([piece.offsets for piece in pieces]))]
