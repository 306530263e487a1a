"""Against a server that checks: nothing twice, nothing acknowledged lost, the order kept."""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.client.writing.sequencing import (
    Failed,
    NeedWriter,
    Send,
    Sequencer,
    Written,
)
from headwater.errors import (
    BackpressureError,
    DisconnectedError,
    HeadwaterError,
    LeaderMissingError,
    StorageError,
    TableMissingError,
)
from tests.client.writing.model_server import ModelBatch, ModelServer, Request

DEADLINE = 100.0


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

    @rule(size=st.integers(1, 4), bad=st.integers(0, 30))
    def submit(self, size, bad):
        rows = tuple(next(self.rows) for _ in range(size))
        self.submitted += rows
        batch = ModelBatch(rows, frozenset(rows[bad : bad + 1]))
        self.sequencer.add(batch, deadline=self.now + DEADLINE)

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
                case Written(batch, offset):
                    assert offset is None or self.server.log[offset] == batch.rows
                    self.written += batch.rows
                case Failed(batch, fault):
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

    @precondition(lambda self: self.wire)
    @rule(at=st.integers(0, 3), says_duplicate=st.booleans())
    def answer(self, at, says_duplicate):
        # Large requests may be overtaken by smaller ones.
        request = self.wire.pop(min(at // 3, len(self.wire) - 1))
        try:
            offset = self.server.take(request, says_duplicate=says_duplicate)
        except HeadwaterError as fault:
            self.sequencer.failed(request.slot, fault)
        else:
            self.sequencer.written(request.slot, offset)
        self.collect()

    @precondition(lambda self: self.wire)
    @rule()
    def push_back(self):
        self.sequencer.failed(self.wire.pop(0).slot, BackpressureError("Too fast."))

    @precondition(lambda self: self.wire)
    @rule(is_written=st.booleans())
    def break_down(self, is_written):
        request = self.wire.pop(0)
        try:
            if is_written:
                self.server.take_and_break(request)
            raise StorageError("The disk is gone.")
        except HeadwaterError as fault:
            self.sequencer.failed(request.slot, fault)

    @precondition(lambda self: self.wire)
    @rule(fates=st.lists(st.sampled_from(["taken", "lost", "late"]), min_size=5, max_size=5))
    def cut_the_connection(self, fates):
        for request, fate in zip(self.wire, fates, strict=False):
            if fate == "taken":
                self.take_in_silence(request)
            elif fate == "late":
                self.late.append(request)
            self.sequencer.failed(request.slot, DisconnectedError("Gone."))
        self.wire = []

    @precondition(lambda self: self.late)
    @rule(at=st.integers(0, 10))
    def a_late_request_arrives(self, at):
        self.take_in_silence(self.late.pop(at % len(self.late)))

    def take_in_silence(self, request: Request) -> None:
        try:
            self.server.take(request)
        except HeadwaterError:
            return

    @precondition(lambda self: not self.wire and not self.late and self.is_certain)
    @rule()
    def forget_writers(self):
        self.server.forget()

    @property
    def is_certain(self) -> bool:
        return not any(slot.may_be_written for slot in self.sequencer._slots)

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
                self.answer(0, says_duplicate=False)
            self.step()
        while self.late:
            self.take_in_silence(self.late.pop())
        self.nothing_is_there_twice()
        self.what_was_acknowledged_is_there_in_order()
        self.what_was_refused_is_not_there()
        judged = [*self.written, *self.refused, *self.uncertain]
        assert sorted(judged) == self.submitted


TestSequencing = SequencingMachine.TestCase
TestSequencing.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
