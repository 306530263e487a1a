"""Histories survive files, kills and merges, and refuse what contradicts itself."""

import json

import pytest
from hypothesis import given

from headwater.errors import InvalidValueError
from headwater.testing.history import LogHistory, OperationOutcome
from headwater.testing.key_checker import check_keys
from headwater.testing.key_history import KeyHistory
from headwater.testing.log_checker import check_log
from tests.testing import key_world, log_world


class Clock:
    """Tell the times that it is given."""

    def __init__(self, *times: float) -> None:
        self._times = iter(times)

    def monotonic(self) -> float:
        return next(self._times)


@given(tape=log_world.tapes)
def test_a_log_history_is_the_same_after_a_file(tape, tmp_path_factory):
    path = tmp_path_factory.mktemp("history") / "log.jsonl"
    history = log_world.LogWorld().play(tape)

    history.save(path)
    loaded = LogHistory.load(path)

    assert loaded.journal.events == history.journal.events
    assert (loaded.sent, loaded.reads, loaded.extents) == (
        history.sent,
        history.reads,
        history.extents,
    )


@given(tape=key_world.tapes)
def test_a_key_history_is_the_same_after_a_file(tape, tmp_path_factory):
    path = tmp_path_factory.mktemp("history") / "keys.jsonl"
    history = key_world.KeyWorld().play(tape)

    history.save(path)

    assert KeyHistory.load(path).operations() == history.operations()


def test_a_journal_holds_all_but_the_line_that_a_kill_cut_off(tmp_path):
    path = tmp_path / "writer.jsonl"
    history = LogHistory(journal=path)
    history.ack(history.send("w", "w/1"), bucket=0, offset=0)
    history.send("w", "w/2")
    history.close()
    path.write_bytes(path.read_bytes()[:-5])

    loaded = LogHistory.load(path)

    assert [sent.value for sent in loaded.sent] == ["w/1"]


@pytest.mark.parametrize("line", ["no JSON", "[]", '{"writer": "w"}', '{"event": 5}'])
def test_a_file_that_is_no_history_is_refused_with_its_line(tmp_path, line):
    path = tmp_path / "other.jsonl"
    path.write_text(line + "\n")

    with pytest.raises(InvalidValueError, match="not a line of a history"):
        LogHistory.load(path)


def test_histories_of_several_processes_are_judged_together():
    writer, reader = LogHistory(), LogHistory()
    writer.ack(writer.send("w", "w/1"), bucket=0, offset=0)
    reader.read("final", bucket=0, offset=0, value="w/1")
    other = LogHistory()
    other.fail(other.send("v", "v/1"))

    merged = LogHistory.merge(writer, other, reader)

    assert check_log(merged, final_reader="final") == []
    assert [merged.outcomes[n] for n in range(2)] == [
        OperationOutcome.DONE,
        OperationOutcome.FAILED,
    ]


def test_times_put_the_events_of_several_processes_in_order():
    writer, reader = KeyHistory(clock=Clock(1, 2, 5, 6)), KeyHistory(clock=Clock(3, 4, 7, 8))
    for value in ("first", "second"):
        writer.done(writer.put("w", "k", value))
        reader.done(reader.get("r", "k"), value)

    merged = KeyHistory.merge(reader, writer)

    assert [each.client for each in merged.operations()] == ["w", "r", "w", "r"]
    assert check_keys(merged) == []


def test_events_of_one_moment_are_taken_as_concurrent():
    writer, reader = KeyHistory(clock=Clock(1, 2)), KeyHistory(clock=Clock(2, 3))
    writer.done(writer.put("w", "k", "new"))
    reader.done(reader.get("r", "k"), None)

    assert check_keys(KeyHistory.merge(writer, reader)) == []


def test_an_operation_ends_once_but_may_be_answered_after_it_was_given_up():
    history = LogHistory()
    operation = history.send("w", "w/1")

    history.lose(operation)
    history.ack(operation)

    with pytest.raises(InvalidValueError, match="already ended as done"):
        history.fail(operation)
    with pytest.raises(InvalidValueError, match="no operation 7"):
        history.ack(7)


def test_a_journal_takes_no_file_that_is_there_already(tmp_path):
    path = tmp_path / "writer.jsonl"
    LogHistory(journal=path).close()

    with pytest.raises(FileExistsError):
        LogHistory(journal=path)


def test_lines_are_plain_json_that_other_programs_can_write(tmp_path):
    path = tmp_path / "other.jsonl"
    calls = [{"event": "put", "client": "c", "key": "k", "value": "v", "at": 1.5}]
    calls.append({"event": "done", "operation": 0, "value": None, "at": 2})
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))

    (operation,) = KeyHistory.load(path).operations()

    assert (operation.key, operation.value, operation.outcome) == ("k", "v", OperationOutcome.DONE)
