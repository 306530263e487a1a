"""Clients that get no answers, or only old rows, are not taken for clients that get on."""

from contextlib import ExitStack, closing

import pytest

from headwater.testing.history import LogHistory
from headwater.testing.key_history import KeyHistory
from headwater.write.receipts import BucketReceipt
from tests.torture.progress import await_progress
from tests.torture.worker import note_acks


@pytest.fixture
def log(tmp_path):
    """Begin histories of log clients by their names, each with its journal."""
    with ExitStack() as stack:

        def begin(name: str) -> LogHistory:
            history = LogHistory(journal=tmp_path / name)
            stack.callback(history.close)
            return history

        yield begin


@pytest.fixture
def keyed(tmp_path):
    with closing(KeyHistory(journal=tmp_path / "upsert-a")) as history:
        yield history


def ignore() -> None:
    """Be content with everything that runs."""


def test_writers_and_readers_that_get_on_are_let_go(tmp_path, log, keyed):
    writer, reader = log("append-a"), log("tail-a")
    turns = []

    def work() -> None:
        turns.append(writer.send("a", f"a/{len(turns)}"))
        writer.ack(turns[-1], bucket=0, offset=turns[-1])
        reader.read("a", bucket=0, offset=turns[-1], value=f"a/{turns[-1]}")
        keyed.done(keyed.put("a", "key", "value"))

    await_progress(tmp_path.iterdir(), within_s=60, check=work)

    assert turns == [0]


def test_an_answer_to_what_was_sent_before_is_no_progress(tmp_path, log):
    history = log("append-a")
    sent = history.send("a", "a/0")

    with pytest.raises(AssertionError, match=r"no progress .* append-a"):
        await_progress(
            [tmp_path / "append-a"],
            within_s=0.3,
            check=lambda: history.ack(sent, bucket=0, offset=0),
        )


def test_rows_that_are_found_but_not_written_are_no_progress(tmp_path, keyed):
    with pytest.raises(AssertionError, match=r"no progress .* upsert-a"):
        await_progress(
            [tmp_path / "upsert-a"],
            within_s=0.3,
            check=lambda: keyed.done(keyed.get("a", "key"), "value"),
        )


def test_rows_that_are_read_again_are_no_progress(tmp_path, log):
    writer, reader = log("append-a"), log("tail-a")
    writer.ack(writer.send("a", "a/0"), bucket=0, offset=0)

    def work() -> None:
        reader.read("a", bucket=0, offset=0, value="a/0")
        writer.ack(writer.send("a", f"a/{len(writer.sent)}"), bucket=0, offset=len(writer.sent) - 1)

    with pytest.raises(AssertionError, match=r"no progress within 0.3 s: tail-a$"):
        await_progress(tmp_path.iterdir(), within_s=0.3, check=work)


def test_a_client_without_a_journal_has_not_begun(tmp_path):
    with pytest.raises(AssertionError, match="no progress"):
        await_progress([tmp_path / "append-a"], within_s=0.0, check=ignore)


@pytest.mark.parametrize(("end_offset", "offsets"), [(7, [5, 6]), (-1, [None, None])])
def test_rows_whose_place_is_not_said_are_acked_without_one(end_offset, offsets):
    history = LogHistory()
    sent = [history.send("a", f"a/{number}") for number in range(2)]

    note_acks(history, sent, BucketReceipt(None, 0, 2, end_offset))

    assert [each.offset for each in history.sent] == offsets
