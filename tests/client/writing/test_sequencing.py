"""Single decisions of the sequencer that the machine meets rarely."""

import pytest

from headwater.errors import (
    AuthenticationError,
    DisconnectedError,
    InvalidValueError,
    OutOfOrderSequenceError,
    StorageError,
    TimedOutError,
    UnknownWriterError,
)
from headwater.write.sequencer import (
    RENEWALS_MAX,
    BatchFailed,
    BatchWritten,
    NeedWriter,
    Pause,
    Rest,
    Send,
    Sequencer,
)
from tests.client.writing.model_server import ModelBatch

OUT_OF_ORDER = OutOfOrderSequenceError("It is not the next.")
GONE = DisconnectedError("Gone.")
REFUSED = AuthenticationError("No.")


@pytest.fixture
def sequencer():
    sequencer = Sequencer(window=5)
    for row in range(7):
        sequencer.add(ModelBatch((row,)), deadline=100.0 + row)
    assert sequencer.next(0) == NeedWriter()
    sequencer.begin(1)
    return sequencer


def send(sequencer, count):
    """Send so many batches; return their slots, and writer id and number of each."""
    slots, numbers = [], []
    for _ in range(count):
        action = sequencer.next(0)
        assert isinstance(action, Send), action
        slots.append(action.slot)
        numbers.append(sequencer.number(action.slot))
    return slots, numbers


def rows_of(slots):
    return [slot.batch.rows[0] for slot in slots]


def test_no_more_are_in_flight_than_the_window_holds(sequencer):
    _, numbers = send(sequencer, 5)

    assert numbers == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)]
    assert sequencer.next(0) == Rest()


def test_batches_written_before_an_open_one_make_no_room(sequencer):
    slots, _ = send(sequencer, 5)

    for slot in slots[1:]:
        sequencer.written(slot, 7)

    assert sequencer.next(0) == Rest()


def test_after_a_fault_everything_in_flight_comes_back_and_is_sent_again(sequencer):
    slots, numbers = send(sequencer, 3)

    sequencer.failed(slots[0], GONE)
    waiting = sequencer.next(0)
    sequencer.failed(slots[1], OUT_OF_ORDER)
    sequencer.failed(slots[2], GONE)

    assert waiting == Rest()
    assert sequencer.next(0) == Pause(1)
    assert send(sequencer, 3) == (slots, numbers)


def test_numbers_of_refused_batches_go_to_those_behind(sequencer):
    slots, _ = send(sequencer, 3)

    sequencer.written(slots[0], 0)
    sequencer.failed(slots[1], REFUSED)
    sequencer.failed(slots[2], OUT_OF_ORDER)
    again, numbers = send(sequencer, 2)

    assert sequencer.take_verdicts() == [
        BatchWritten(slots[0].batch, 0),
        BatchFailed(slots[1].batch, REFUSED),
    ]
    assert rows_of(again) == [2, 3]
    assert numbers == [(1, 1), (1, 2)]


def test_a_number_is_not_given_again_while_a_lost_request_may_still_bring_it(sequencer):
    slots, _ = send(sequencer, 3)

    sequencer.failed(slots[0], REFUSED)
    sequencer.failed(slots[1], GONE)
    sequencer.failed(slots[2], GONE)

    assert sequencer.next(0) == Pause(1)
    assert sequencer.next(0) == NeedWriter()
    sequencer.begin(2)
    again, numbers = send(sequencer, 2)
    assert rows_of(again) == [1, 2]
    assert numbers == [(2, 0), (2, 1)]


def test_batches_before_a_refused_one_keep_their_writer_id_until_they_are_written(sequencer):
    slots, _ = send(sequencer, 3)
    sequencer.failed(slots[0], GONE)
    sequencer.failed(slots[1], REFUSED)
    sequencer.failed(slots[2], GONE)

    assert sequencer.next(0) == Pause(1)
    again, numbers = send(sequencer, 1)
    waiting = sequencer.next(0)
    sequencer.written(again[0], 0)

    assert (rows_of(again), numbers) == ([0], [(1, 0)])
    assert waiting == Rest()
    assert sequencer.next(0) == NeedWriter()


@pytest.mark.parametrize("fault", [OUT_OF_ORDER, UnknownWriterError("Who?")])
def test_a_writer_that_was_forgotten_begins_anew(sequencer, fault):
    slots, _ = send(sequencer, 2)
    sequencer.written(slots[0], 0)
    sequencer.written(slots[1], 1)
    slots, _ = send(sequencer, 1)

    sequencer.failed(slots[0], fault)

    assert sequencer.next(0) == NeedWriter()
    sequencer.begin(2)
    assert send(sequencer, 1) == (slots, [(2, 0)])


def test_a_server_that_knows_no_writer_is_not_asked_for_ever(sequencer):
    for writer_id in range(2, RENEWALS_MAX + 2):
        slots, _ = send(sequencer, 1)
        sequencer.failed(slots[0], OUT_OF_ORDER)
        assert sequencer.next(0) == NeedWriter()
        sequencer.begin(writer_id)
    slots, _ = send(sequencer, 1)
    sequencer.failed(slots[0], OUT_OF_ORDER)
    sequencer.next(0)

    assert sequencer.take_verdicts() == [BatchFailed(slots[0].batch, OUT_OF_ORDER)]


def test_a_batch_that_may_be_there_fails_when_the_writer_was_forgotten(sequencer):
    slots, _ = send(sequencer, 1)
    sequencer.failed(slots[0], GONE)
    assert sequencer.next(0) == Pause(1)
    send(sequencer, 1)

    sequencer.failed(slots[0], OUT_OF_ORDER)

    assert sequencer.next(0) == NeedWriter()
    (verdict,) = sequencer.take_verdicts()
    assert isinstance(verdict.fault, OutOfOrderSequenceError)
    assert "unknown" in str(verdict.fault)


def test_after_an_uncertain_failure_the_others_go_on_under_a_new_writer_id(sequencer):
    slots, _ = send(sequencer, 3)

    sequencer.failed(slots[0], StorageError("The disk is gone."))
    sequencer.failed(slots[1], GONE)
    sequencer.failed(slots[2], OUT_OF_ORDER)

    sequencer.next(0)
    failed = [verdict.batch.rows for verdict in sequencer.take_verdicts()]
    assert failed == [(0,), (1,)]
    assert sequencer.next(0) == NeedWriter()
    sequencer.begin(2)
    again, numbers = send(sequencer, 1)
    assert (rows_of(again), numbers) == ([2], [(2, 0)])


def test_a_batch_that_may_be_there_is_given_up_at_its_deadline(sequencer):
    slots, _ = send(sequencer, 1)
    sequencer.failed(slots[0], GONE)

    assert sequencer.next(100.0) == Pause(1)
    assert sequencer.next(100.0) == NeedWriter()
    (verdict,) = sequencer.take_verdicts()
    assert isinstance(verdict.fault, TimedOutError)
    assert "unknown" in verdict.fault.hint


def test_a_batch_that_was_never_sent_is_not_written_at_its_deadline(sequencer):
    sequencer.stall(GONE)

    assert sequencer.next(101.5) == Pause(1)
    verdicts = sequencer.take_verdicts()
    assert [verdict.batch.rows for verdict in verdicts] == [(0,), (1,)]
    assert all("Nothing of them was written" in verdict.fault.hint for verdict in verdicts)
    assert isinstance(sequencer.next(101.5), Send)


def test_a_refused_batch_is_divided_until_only_bad_rows_fail():
    sequencer = Sequencer(window=5)
    sequencer.add(ModelBatch((0, 1, 2), frozenset({1})), deadline=100.0)
    sequencer.begin(1)
    slots, _ = send(sequencer, 1)

    sequencer.failed(slots[0], InvalidValueError("A row is bad."))
    parts, numbers = send(sequencer, 2)

    assert [slot.batch.rows for slot in parts] == [(0,), (1, 2)]
    assert numbers == [(1, 0), (1, 1)]
