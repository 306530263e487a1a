"""Which batch of a bucket is sent next, under which number, and what its answer means.

Nothing here waits, sends or looks at a clock. The rules rest on what servers do: a writer's
batches for a bucket are taken in the order of their numbers without a gap, and a number that was
taken before is recognised as long as it is one of the last few.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Generic, Protocol, Self, TypeVar

from headwater import errors

SEQUENCE_MAX = 2**31 - 1
# A server that refuses the first number of a new writer id again and again is not to be helped.
RENEWALS_MAX = 3
_UNKNOWN = "Whether the rows were written is unknown: read before repeating them."
_REFUSALS = (
    errors.RequestError,
    errors.MissingError,
    errors.AccessError,
    errors.CorruptBatchError,
    errors.LogDivergedError,
)


class Divisible(Protocol):
    """Be a batch that may be refused because of a part of it."""

    def divided(self, fault: errors.HeadwaterError) -> Sequence[Self]:
        """Return smaller batches to send instead, in order, or nothing to let it fail."""
        ...


B = TypeVar("B", bound=Divisible)


class _State(Enum):
    WAITING = auto()
    IN_FLIGHT = auto()
    WRITTEN = auto()


@dataclass(slots=True, eq=False)
class Slot(Generic[B]):
    """Hold the place of a batch in the order of its bucket."""

    batch: B
    deadline: float
    # Which writer id it belongs to, counted; its number under that id once it was sent.
    generation: int
    sequence: int | None = None
    state: _State = _State.WAITING
    # Everything before it had been written when it was sent.
    was_first: bool = False
    # A send ended without saying whether the batch was taken.
    may_be_written: bool = False
    # What speaks against sending it again; judged once nothing is in flight.
    fault: errors.HeadwaterError | None = None


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing before something is added or answered."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before sending again, the longer the more failures came in a row."""

    failures: int


@dataclass(frozen=True, slots=True)
class NeedWriter:
    """Ask for a writer id that this bucket has not used."""


@dataclass(frozen=True, slots=True, eq=False)
class Send(Generic[B]):
    """Send this batch."""

    slot: Slot[B]


@dataclass(frozen=True, slots=True)
class BatchWritten(Generic[B]):
    """Tell that a batch was written, and at which offset if the server said so."""

    batch: B
    offset: int | None


@dataclass(frozen=True, slots=True)
class BatchFailed(Generic[B]):
    """Tell that a batch was not written, or that nobody knows."""

    batch: B
    fault: errors.HeadwaterError


Action = Rest | Pause | NeedWriter | Send[B]
Verdict = BatchWritten[B] | BatchFailed[B]


class Sequencer(Generic[B]):
    """Decide about the batches of one bucket."""

    def __init__(self, *, window: int) -> None:
        self._window = window
        self._slots: deque[Slot[B]] = deque()
        self._writer_id: int | None = None
        self._generation = 0
        self._newest_generation = 0
        self._sequence = 0
        self._in_flight = 0
        self._is_settling = False
        self._is_pause_due = False
        self._failures = 0
        self._renewals = 0
        self._last_fault: errors.HeadwaterError | None = None
        self._verdicts: list[Verdict[B]] = []

    # ---- what is there

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def last(self) -> B | None:
        """Return the batch that was added last, if it was never sent."""
        slot = self._slots[-1] if self._slots else None
        return slot.batch if slot is not None and _is_untouched(slot) else None

    @property
    def writer_id(self) -> int | None:
        """Return the writer id in use."""
        return self._writer_id

    def take_verdicts(self) -> list[Verdict[B]]:
        """Return what became of batches since the last call."""
        verdicts, self._verdicts = self._verdicts, []
        return verdicts

    def drain(self) -> list[B]:
        """Give everything up, and return the batches that were not judged."""
        batches = [slot.batch for slot in self._slots if slot.state is not _State.WRITTEN]
        self._slots.clear()
        return batches

    # ---- what happens

    def add(self, batch: B, *, deadline: float) -> None:
        """Put a batch behind all others; deadlines never go back."""
        self._slots.append(Slot(batch, deadline, self._newest_generation))

    def begin(self, writer_id: int) -> None:
        """Number from 0 under a writer id that this bucket has not used."""
        assert not self._in_flight
        assert writer_id != self._writer_id
        self._writer_id = writer_id
        self._generation = self._slots[0].generation if self._slots else self._newest_generation
        self._sequence = 0

    def number(self, slot: Slot[B]) -> tuple[int, int]:
        """Take note that a batch is on its way, and return its writer id and number."""
        assert self._writer_id is not None
        assert slot.state is _State.WAITING
        assert slot.generation == self._generation
        if slot.sequence is None:
            slot.sequence = self._sequence
            self._sequence = 0 if self._sequence == SEQUENCE_MAX else self._sequence + 1
        slot.state = _State.IN_FLIGHT
        slot.was_first = slot is self._slots[0]
        self._in_flight += 1
        return self._writer_id, slot.sequence

    def written(self, slot: Slot[B], offset: int | None) -> None:
        """Take note that a server has written a batch."""
        self._in_flight -= 1
        self._failures = self._renewals = 0
        self._settle_as_written(slot, offset)

    def failed(self, slot: Slot[B], fault: errors.HeadwaterError) -> None:
        """Take note that a send failed, and let everything in flight come back first."""
        if isinstance(fault, errors.DuplicateSequenceError):
            self.written(slot, None)
            return
        self._in_flight -= 1
        self._is_settling = True
        slot.state = _State.WAITING
        if fault.retriable:
            self._delay(fault)
        else:
            slot.fault = fault
        if not isinstance(fault, (errors.SequenceError, *_REFUSALS)) or fault.retriable:
            slot.may_be_written = True

    def reject(self, slot: Slot[B], fault: errors.HeadwaterError) -> None:
        """Take note that a batch cannot be sent at all."""
        assert slot.state is _State.WAITING
        slot.fault = fault
        self._is_settling = True

    def stall(self, fault: errors.HeadwaterError) -> None:
        """Take note that nothing can be sent at present, or never."""
        if fault.retriable:
            self._delay(fault)
            return
        self._is_settling = True
        for slot in self._slots:
            if slot.state is _State.WAITING:
                slot.fault = slot.fault or fault

    def _delay(self, fault: errors.HeadwaterError) -> None:
        self._last_fault = fault
        # However many batches fail together, they fail once.
        self._failures += not self._is_pause_due
        self._is_pause_due = True

    # ---- a batch that is sent aside, by whoever borrows the next number

    def lend(self) -> tuple[int, int] | None:
        """Return writer id and number for a batch that is sent past the queue.

        Only while nothing waits or is judged; nothing may be sent before it is given back.
        """
        if self._slots or self._is_settling or self._is_pause_due or self._writer_id is None:
            return None
        if self._newest_generation != self._generation:
            return None
        return self._writer_id, self._sequence

    def lent_written(self) -> None:
        """Take note that the batch that was sent aside is written under its number."""
        self._sequence = 0 if self._sequence == SEQUENCE_MAX else self._sequence + 1
        self._failures = self._renewals = 0

    def lent_failed(self, batch: B, fault: errors.HeadwaterError, *, deadline: float) -> None:
        """Put the batch that was sent aside before all others, as one whose send has failed."""
        slot = Slot(batch, deadline, self._generation)
        self._slots.appendleft(slot)
        self.number(slot)
        self.failed(slot, fault)

    # ---- what to do

    def next(self, now: float) -> Action[B]:
        """Return what to do next; only a pause is used up by asking."""
        if self._is_settling and not self._in_flight:
            self._settle()
        self._expire(now)
        while self._slots and self._slots[0].state is _State.WRITTEN:
            self._slots.popleft()
        if not self._slots or self._is_settling:
            return Rest()
        if self._is_pause_due:
            self._is_pause_due = False
            return Pause(self._failures)
        if self._writer_id is None or self._slots[0].generation != self._generation:
            return NeedWriter()
        return self._next_send()

    def _next_send(self) -> Action[B]:
        # Written ones count as well until all before them are: a server remembers that many only.
        for slot in islice(self._slots, self._window):
            if slot.generation != self._generation:
                break
            if slot.state is _State.WAITING:
                return Send(slot)
        return Rest()

    # ---- deadlines

    def _expire(self, now: float) -> None:
        is_late = False
        for slot in self._slots:
            if slot.deadline > now:
                break
            if slot.state is _State.WAITING and slot.fault is None:
                slot.fault = self._too_late(slot)
                is_late = True
        if not is_late:
            return
        self._is_settling = True
        if not self._in_flight:
            self._settle()

    def _too_late(self, slot: Slot[B]) -> errors.TimedOutError:
        last = "" if self._last_fault is None else f" The last failure: {self._last_fault}"
        what = "were not acknowledged" if slot.may_be_written else "could not be sent"
        hint = _UNKNOWN if slot.may_be_written else "Nothing of them was written."
        return errors.TimedOutError(f"Rows {what} before their deadline.{last}", hint=hint)

    # ---- judging, once nothing is in flight

    def _settle(self) -> None:
        """Judge every batch, in order, and renumber those that are not tied to their number.

        A batch that was refused for certain did not use its number, so nothing behind it can have
        been taken. One that failed without certainty leaves it open whether its number was used.
        """
        self._is_settling = False
        self._believe_later_ones()
        slots, self._slots = self._slots, deque()
        while slots:
            slot = slots.popleft()
            fault, slot.fault = slot.fault, None
            if fault is None or slot.state is _State.WRITTEN:
                self._slots.append(slot)
            elif not isinstance(fault, errors.SequenceError):
                self._refuse(slot, fault, behind=slots)
            elif not slot.was_first:
                # A batch before it was not taken yet, so this one could not be either.
                self._slots.append(slot)
            else:
                self._lose_place(slot, fault, behind=slots)

    def _believe_later_ones(self) -> None:
        """Take a batch for written if one behind it was: numbers are taken without a gap."""
        has_later = False
        for slot in reversed(self._slots):
            if slot.state is _State.WRITTEN:
                has_later = True
            elif isinstance(slot.fault, errors.SequenceError):
                # A server that wrote the later one knows this one as well: it is another storage
                # by now, restored from a copy, or it has lost what it knew of the writer.
                continue
            elif has_later and slot.fault is not None and slot.may_be_written:
                self._settle_as_written(slot, None)

    def _settle_as_written(self, slot: Slot[B], offset: int | None) -> None:
        slot.state, slot.fault = _State.WRITTEN, None
        self._verdicts.append(BatchWritten(slot.batch, offset))

    def _refuse(
        self, slot: Slot[B], fault: errors.HeadwaterError, *, behind: deque[Slot[B]]
    ) -> None:
        if slot.may_be_written:
            self._abandon(slot, fault, behind=behind)
            return
        parts = slot.batch.divided(fault)
        if not parts:
            self._verdicts.append(BatchFailed(slot.batch, fault))
        behind.extendleft(Slot(part, slot.deadline, slot.generation) for part in reversed(parts))
        if slot.sequence is None:
            return
        if any(each.may_be_written for each in behind):
            # One of their earlier sends may still be under way, under a number that another
            # batch would get now.
            self._renew(behind)
            return
        self._sequence = slot.sequence
        for each in behind:
            each.sequence = None

    def _lose_place(
        self, slot: Slot[B], fault: errors.HeadwaterError, *, behind: deque[Slot[B]]
    ) -> None:
        """Begin anew after a server lost count of what this writer sent."""
        if slot.may_be_written:
            self._abandon(slot, fault, behind=behind)
        elif self._renewals == RENEWALS_MAX:
            self._verdicts.append(BatchFailed(slot.batch, fault))
            self._renew(behind)
        else:
            self._renewals += 1
            behind.appendleft(slot)
            self._renew(behind)

    def _abandon(
        self, slot: Slot[B], fault: errors.HeadwaterError, *, behind: deque[Slot[B]]
    ) -> None:
        """Give up batches that may have been written; the others go on under a new writer id."""
        self._verdicts.append(BatchFailed(slot.batch, _uncertain(fault)))
        others = [each for each in behind if each.may_be_written]
        self._verdicts += [BatchFailed(each.batch, _uncertain_as_well(fault)) for each in others]
        kept = [each for each in behind if not each.may_be_written]
        behind.clear()
        behind.extend(kept)
        self._renew(behind)

    def _renew(self, slots: deque[Slot[B]]) -> None:
        """Move batches, which were not written for certain, to the next writer id."""
        self._newest_generation += 1
        for slot in slots:
            slot.generation, slot.sequence = self._newest_generation, None
            slot.may_be_written = False


def _is_untouched(slot: Slot[B]) -> bool:
    return slot.sequence is None and slot.state is _State.WAITING and slot.fault is None


def _uncertain(fault: errors.HeadwaterError) -> errors.HeadwaterError:
    if isinstance(fault, errors.TimedOutError):
        return fault
    kind = (
        errors.OutOfOrderSequenceError if isinstance(fault, errors.SequenceError) else type(fault)
    )
    return kind(f"{fault.message} An earlier attempt had no answer.", hint=_UNKNOWN)


def _uncertain_as_well(fault: errors.HeadwaterError) -> errors.HeadwaterError:
    kind = (
        errors.TimedOutError
        if isinstance(fault, errors.TimedOutError)
        else errors.OutOfOrderSequenceError
    )
    return kind(f"Rows that were sent before failed: {fault.message}", hint=_UNKNOWN)
