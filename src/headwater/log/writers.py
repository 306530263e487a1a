"""What each writer sent last, so that a resend is recognised and a gap refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import OutOfOrderSequenceError
from headwater.rows.log_batch import NO_WRITER, BatchHeader

SEQUENCE_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """Remember where a batch of a writer landed."""

    sequence: int
    base_offset: int
    end_offset: int
    timestamp_ms: int


WriterState = Mapping[int, tuple[KeptBatch, ...]]


class Writers:
    """Keep the last few batches of every writer."""

    def __init__(self, state: WriterState, *, kept_max: int) -> None:
        self._state = dict(state)
        self._kept_max = kept_max

    def resent(self, headers: Sequence[BatchHeader]) -> tuple[KeptBatch, ...]:
        """Return where the batches landed before, or nothing if they are the next ones."""
        if all(header.writer_id == NO_WRITER for header in headers):
            return ()
        duplicates = tuple(filter(None, map(self._find, headers)))
        if len(duplicates) == len(headers):
            return duplicates
        last: dict[int, int] = {}
        for header in headers:
            if header.writer_id != NO_WRITER:
                expected = self._expected(header.writer_id, last)
                _require_next(header.writer_id, header.sequence, expected)
                last[header.writer_id] = header.sequence
        return ()

    def expect(self, writer_id: int, sequence: int) -> KeptBatch | None:
        """Return where a batch of this sequence landed before, or None if it is the next one.

        For batches that the server makes itself: their sizes do not tell a resend.
        """
        if writer_id == NO_WRITER:
            return None
        for kept in self._state.get(writer_id, ()):
            if kept.sequence == sequence:
                return kept
        _require_next(writer_id, sequence, self._expected(writer_id, {}))
        return None

    def record(self, header: BatchHeader, *, base_offset: int, timestamp_ms: int) -> None:
        """Remember a batch that was written."""
        if header.writer_id == NO_WRITER:
            return
        end_offset = base_offset + header.last_offset_delta + 1
        batch = KeptBatch(header.sequence, base_offset, end_offset, timestamp_ms)
        kept = (*self._state.get(header.writer_id, ()), batch)
        self._state[header.writer_id] = kept[-self._kept_max :]

    def forget_idle(self, *, before_ms: int) -> None:
        """Drop the writers that sent nothing since."""
        self._state = {
            writer_id: kept
            for writer_id, kept in self._state.items()
            if kept[-1].timestamp_ms >= before_ms
        }

    def snapshot(self) -> WriterState:
        """Return the state as it is now."""
        return dict(self._state)

    def _find(self, header: BatchHeader) -> KeptBatch | None:
        for kept in self._state.get(header.writer_id, ()):
            count = kept.end_offset - kept.base_offset
            if kept.sequence == header.sequence and count == header.last_offset_delta + 1:
                return kept
        return None

    def _expected(self, writer_id: int, last: Mapping[int, int]) -> int:
        if writer_id in last:
            return next_sequence(last[writer_id])
        kept = self._state.get(writer_id)
        return next_sequence(kept[-1].sequence) if kept else 0


def next_sequence(sequence: int) -> int:
    """Return the sequence after this one; it wraps to 0."""
    return 0 if sequence == SEQUENCE_MAX else sequence + 1


def _require_next(writer_id: int, sequence: int, expected: int) -> None:
    if sequence != expected:
        raise OutOfOrderSequenceError(
            f"Writer {writer_id} sent batch {sequence}, the next is {expected}.",
            hint="Take a new writer id and start at 0.",
        )
