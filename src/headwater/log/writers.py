"""The last batches of each writer, to recognise resends and reject gaps.

A resend has the sequence number and the checksum of a batch that is remembered. The number alone is
not enough: after a restore from a copy, or when two writers share an id, other rows may arrive
under it and must not be acknowledged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import OutOfOrderSequenceError, UnknownWriterError
from headwater.model.bucket import is_computed
from headwater.rows.log_batch import NO_WRITER, BatchHeader

SEQUENCE_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """Where a batch of a writer landed."""

    sequence: int
    base_offset: int
    end_offset: int
    timestamp_ms: int
    checksum: int | None = None
    """Checksum of what the writer sent; None if an older version recorded the batch."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Who owns a computed writer id, and since when."""

    owner: int
    since_ms: int


WriterState = Mapping[int, tuple[KeptBatch, ...]]
NOBODY = 0
"""The owner where users are not distinguished."""


class Writers:
    """The last few batches of every writer, and the owners of computed ids."""

    def __init__(
        self, state: WriterState, *, kept_max: int, owners: Mapping[int, Owned] | None = None
    ) -> None:
        self._state = dict(state)
        self._owners = dict(owners or {})
        self._kept_max = kept_max

    def resent(self, headers: Sequence[BatchHeader]) -> tuple[KeptBatch, ...]:
        """Look up where the batches landed before; empty if they are the next ones."""
        if len(headers) == 1:
            return self._resent_alone(headers[0])
        if all(header.writer_id == NO_WRITER for header in headers):
            return ()
        duplicates = tuple(filter(None, map(self._resent, headers)))
        if len(duplicates) == len(headers):
            return duplicates
        last: dict[int, int] = {}
        for header in headers:
            if header.writer_id != NO_WRITER:
                expected = self._expected(header.writer_id, last)
                _require_next(header.writer_id, header.sequence, expected)
                last[header.writer_id] = header.sequence
        return ()

    def expect(self, writer_id: int, sequence: int, *, checksum: int) -> KeptBatch | None:
        """Look up where a batch landed before; None if it is the next one.

        For requests that the server turns into other batches: their sizes do not identify a resend.
        """
        if writer_id == NO_WRITER:
            return None
        kept = self._find(writer_id, sequence)
        if kept is not None:
            _require_same(writer_id, kept, checksum)
            return kept
        _require_next(writer_id, sequence, self._expected(writer_id, {}))
        return None

    def record(
        self, header: BatchHeader, *, base_offset: int, timestamp_ms: int, checksum: int | None
    ) -> None:
        """Remember a written batch and the checksum of what its writer sent."""
        if header.writer_id == NO_WRITER:
            return
        end_offset = base_offset + header.last_offset_delta + 1
        batch = KeptBatch(header.sequence, base_offset, end_offset, timestamp_ms, checksum)
        kept = (*self._state.get(header.writer_id, ()), batch)
        self._state[header.writer_id] = kept[-self._kept_max :]

    def check_owner(self, writer_id: int, owner: int) -> None:
        """Reject a computed id that another user wrote with before."""
        owned = self._owners.get(writer_id)
        if owned is not None and owner not in (NOBODY, owned.owner):
            raise UnknownWriterError(
                f"Writer {writer_id} belongs to another user.",
                hint=("Write to a sink with another name, or as the user who wrote to it before."),
            )

    def claim(self, headers: Sequence[BatchHeader], owner: int, *, now_ms: int) -> set[int]:
        """Give unowned computed ids to this owner, and return those ids."""
        claimed = self.unclaimed(headers, owner)
        self._owners.update((writer_id, Owned(owner, now_ms)) for writer_id in claimed)
        return claimed

    def unclaimed(self, headers: Sequence[BatchHeader], owner: int) -> set[int]:
        """List the computed ids that this owner would claim."""
        if owner == NOBODY:
            return set()
        ids = {header.writer_id for header in headers if is_computed(header.writer_id)}
        return ids - self._owners.keys()

    def release(self, claimed: set[int]) -> None:
        """Undo a claim that could not be recorded."""
        for writer_id in claimed:
            del self._owners[writer_id]

    def forget_idle(self, *, before_ms: int) -> None:
        """Forget the writers that sent nothing since."""
        self._state = {
            writer_id: kept
            for writer_id, kept in self._state.items()
            if kept and kept[-1].timestamp_ms >= before_ms
        }
        self._owners = {
            writer_id: owned
            for writer_id, owned in self._owners.items()
            if writer_id in self._state or owned.since_ms >= before_ms
        }

    def snapshot(self) -> WriterState:
        """Copy the state as it is now."""
        return dict(self._state)

    def owners(self) -> Mapping[int, Owned]:
        """Owners of the computed ids."""
        return dict(self._owners)

    def _resent_alone(self, header: BatchHeader) -> tuple[KeptBatch, ...]:
        """Look a single batch up, as nearly all requests bring one."""
        if header.writer_id == NO_WRITER:
            return ()
        sequence = header.sequence
        kept = self._state.get(header.writer_id)
        for each in kept or ():
            is_same = each.end_offset - each.base_offset == header.last_offset_delta + 1
            if each.sequence == sequence and is_same:
                _require_same(header.writer_id, each, header.crc)
                return (each,)
        _require_next(header.writer_id, sequence, next_sequence(kept[-1].sequence) if kept else 0)
        return ()

    def _resent(self, header: BatchHeader) -> KeptBatch | None:
        kept = self._find(header.writer_id, header.sequence)
        if kept is None or kept.end_offset - kept.base_offset != header.last_offset_delta + 1:
            return None
        _require_same(header.writer_id, kept, header.crc)
        return kept

    def _find(self, writer_id: int, sequence: int) -> KeptBatch | None:
        for kept in self._state.get(writer_id, ()):
            if kept.sequence == sequence:
                return kept
        return None

    def _expected(self, writer_id: int, last: Mapping[int, int]) -> int:
        if writer_id in last:
            return next_sequence(last[writer_id])
        kept = self._state.get(writer_id)
        return next_sequence(kept[-1].sequence) if kept else 0


def next_sequence(sequence: int) -> int:
    """The sequence after this one; it wraps to 0."""
    return 0 if sequence == SEQUENCE_MAX else sequence + 1


def _require_next(writer_id: int, sequence: int, expected: int) -> None:
    if sequence != expected:
        raise OutOfOrderSequenceError(
            f"Writer {writer_id} sent batch {sequence}, but the next one is {expected}.",
            hint="Get a new writer id and start at 0.",
        )


def _require_same(writer_id: int, kept: KeptBatch, checksum: int) -> None:
    """Reject other bytes under a used number: an answer would confirm rows that are not stored."""
    if kept.checksum is not None and kept.checksum != checksum:
        raise OutOfOrderSequenceError(
            f"Writer {writer_id} already sent batch {kept.sequence} with different rows.",
            hint=(
                "Two writers share an id, or the server was restored from a copy. Get a "
                "new writer id and start at 0."
            ),
        )
