"""Against a server that checks: nothing twice, nothing acknowledged lost, the order kept."""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.errors import (
    BackpressureError,
    DisconnectedError,
    HeadwaterError,
    LeaderMissingError,
    StorageError,
    TableMissingError,
)
from headwater.write.sequencer import BatchFailed, BatchWritten, NeedWriter, Send, Sequencer
from tests.choices import examples
from tests.client.writing.model_server import ModelBatch, ModelServer, Request

DEADLINE = 100.0
FATES = st.sampled_from(
    ["answered"] * 6
    + ["duplicate", "overtaking", "taken", "lost", "late", "late"]
    + ["pushed back", "broken", "broken after it"]
)


class SequencingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.sequencer: Sequencer[ModelBatch] = Sequencer(window=5)
        self.server = ModelServer()
        self.now = 0.0
        self.rows = count()
        self.writer_ids = count(1)
        self.wire: list[Request] = []
        self.late: list[Request] = []
        self.written: list[int] = []
        self.refused: set[int] = set()
        self.uncertain: set[int] = set()
        self.submitted: list[int] = []

    # ---- the client

    @rule(sizes=st.lists(st.integers(1, 3), max_size=4), bad=st.integers(0, 5))
    def submit(self, sizes, bad):
        for size in sizes:
            rows = tuple(next(self.rows) for _ in range(size))
            self.submitted += rows
            # At most one row of the first batch is bad.
            batch = ModelBatch(rows, frozenset(rows[bad : bad + 1]))
            self.sequencer.add(batch, deadline=self.now + DEADLINE)
            bad = size
        self.drive(len(sizes) + 1)

    @rule(steps=st.integers(1, 6))
    def drive(self, steps):
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        match self.sequencer.next(self.now):
            case NeedWriter():
                self.sequencer.begin(next(self.writer_ids))
            case Send(slot):
                self.wire.append(Request(*self.sequencer.number(slot), slot, slot.batch))
            case _:
                pass
        self.collect()

    def collect(self) -> None:
        for verdict in self.sequencer.take_verdicts():
            match verdict:
                case BatchWritten(batch, offset):
                    assert offset is None or self.server.log[offset] == batch.rows
                    self.written += batch.rows
                case BatchFailed(batch, fault):
                    unknown = "unknown" in fault.hint
                    (self.uncertain if unknown else self.refused).update(batch.rows)

    @rule(seconds=st.sampled_from([1.0, 30.0, 101.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(fault=st.sampled_from([LeaderMissingError, TableMissingError]), odd=st.integers(0, 5))
    def no_leader_is_found(self, fault, odd):
        if fault is LeaderMissingError or not odd:
            self.sequencer.stall(fault("There is none."))

    # ---- the server

    @rule(fates=st.lists(st.tuples(FATES, st.booleans()), min_size=5, max_size=5))
    def exchange(self, fates):
        """Let everything in flight meet its fate, and late requests come in between."""
        self.drive(6)
        for fate, late_arrives in fates:
            if late_arrives and self.late:
                self.take_in_silence(self.late.pop(0))
            if self.wire:
                # Large requests may be overtaken by smaller ones.
                request = self.wire.pop(fate == "overtaking" and len(self.wire) - 1)
                self.meet(request, fate)
        self.collect()

    @rule(fate=FATES)
    def send_aside(self, fate):
        """Borrow the next number, as whoever sends a batch past the queue does."""
        lent = self.sequencer.lend()
        if lent is None:
            return
        rows = (next(self.rows),)
        self.submitted += rows
        batch = ModelBatch(rows, frozenset())
        try:
            offset = self.fate_of(Request(*lent, None, batch), fate)
        except HeadwaterError as fault:
            self.sequencer.lent_failed(batch, fault, deadline=self.now + DEADLINE)
        else:
            assert self.server.log[offset] == rows
            self.sequencer.lent_written()
            self.written += rows
        self.collect()

    def meet(self, request: Request, fate: str) -> None:
        try:
            offset = self.fate_of(request, fate)
        except HeadwaterError as fault:
            self.sequencer.failed(request.slot, fault)
        else:
            self.sequencer.written(request.slot, offset)

    def fate_of(self, request: Request, fate: str) -> int:
        """Return where a batch landed, or raise what its sender is told."""
        if fate == "taken":
            self.take_in_silence(request)
        elif fate == "late":
            self.late.append(request)
        faults = {
            "taken": DisconnectedError,
            "late": DisconnectedError,
            "lost": DisconnectedError,
            "pushed back": BackpressureError,
            "broken": StorageError,
        }
        if fate == "broken after it":
            self.server.take_and_break(request)
        if fate in faults:
            raise faults[fate](f"It is {fate}.")
        return self.server.take(request, says_duplicate=fate == "duplicate")

    def take_in_silence(self, request: Request) -> None:
        try:
            self.server.take(request)
        except HeadwaterError:
            return

    @precondition(lambda self: not self.wire and self.can_be_told_from_new_ones)
    @rule()
    def forget_writers(self):
        self.server.forget()

    @property
    def can_be_told_from_new_ones(self) -> bool:
        """A server that forgot its writers takes whatever has the first number."""
        uncertain = [slot.sequence for slot in self.sequencer._slots if slot.may_be_written]
        return 0 not in (*uncertain, *(request.sequence for request in self.late))

    # ---- what must hold

    @invariant()
    def nothing_is_there_twice(self):
        held = [row for rows in self.server.log for row in rows]
        assert len(held) == len(set(held))

    @invariant()
    def what_was_acknowledged_is_there_in_order(self):
        held = [row for rows in self.server.log for row in rows]
        acknowledged = set(self.written)
        assert [row for row in held if row in acknowledged] == sorted(acknowledged)
        assert len(self.written) == len(acknowledged)

    @invariant()
    def what_was_refused_is_not_there(self):
        assert not self.refused & {row for rows in self.server.log for row in rows}

    def teardown(self):
        for _ in range(1000):
            if not len(self.sequencer) and not self.wire:
                break
            if self.wire:
                self.meet(self.wire.pop(0), "answered")
            self.step()
        while self.late:
            self.take_in_silence(self.late.pop())
        self.nothing_is_there_twice()
        self.what_was_acknowledged_is_there_in_order()
        self.what_was_refused_is_not_there()
        judged = [*self.written, *self.refused, *self.uncertain]
        assert sorted(judged) == self.submitted


TestSequencing = SequencingMachine.TestCase
TestSequencing.settings = settings(
    max_examples=examples(150), stateful_step_count=60, deadline=None
)
