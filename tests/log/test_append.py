"""How batches get into a log."""

import errno

import pytest

from headwater.errors import (
    BucketFencedError,
    CorruptBatchError,
    RetryLaterError,
    StoppingError,
)
from headwater.log.log import Appended
from headwater.log.retention import LogSettings
from headwater.rows.log_batch import iterate, read_header
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import (
    DIRECTORY,
    Fault,
    InterposedDisk,
    append,
    batch,
    content,
    filled,
    messages,
    open_log,
)

FIRST = "00000000000000000000.log"


def failing_append(code):
    disk = InterposedDisk(MemoryDisk())
    log = open_log(disk)
    append(log, "kept")
    log.sync()
    disk.before = Fault(1, code=code)
    return disk, log


def test_batches_get_offsets_one_after_another():
    log = open_log(MemoryDisk())

    first = append(log, "a", "b", records=3)
    second = append(log, "c")

    assert first == Appended(0, 6)
    assert second == Appended(6, 7)


def test_an_empty_batch_takes_one_offset():
    log = open_log(MemoryDisk())

    assert append(log, "", records=0) == Appended(0, 1)
    assert append(log, "a") == Appended(1, 2)


def test_bytes_are_stored_as_sent_but_for_the_stamp():
    disk = MemoryDisk()
    sent = batch("hello", records=2)
    log = open_log(disk)
    append(log, "before")

    log.append([memoryview(sent)], timestamp_ms=77)

    stored = content(disk, FIRST)[-len(sent) :]
    header = read_header(stored)
    assert (header.base_offset, header.commit_timestamp) == (1, 1_000)
    assert stored[21:] == sent[21:]
    assert stored[8:13] == sent[8:13]


def test_timestamps_never_go_back():
    log = open_log(MemoryDisk())

    for timestamp_ms in (5_000, 3_000, 6_000):
        append(log, "x", timestamp_ms=timestamp_ms)

    data = log.read(0, bytes_max=10_000, up_to=3)
    assert [header.commit_timestamp for header, _ in iterate(data)] == [5_000, 5_000, 6_000]


def test_timestamps_do_not_go_back_after_a_roll_and_a_restart():
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "x", timestamp_ms=5_000)
    log.roll()
    log.close()
    log = open_log(disk)

    append(log, "x", timestamp_ms=10)

    assert read_header(log.read(1, bytes_max=100, up_to=2)).commit_timestamp == 5_000


def test_a_full_segment_is_followed_by_another_one():
    log = filled(MemoryDisk())

    assert log.segment_count == 3
    assert log.end_offset == 20
    assert log.size_bytes == 20 * 80


def test_a_batch_larger_than_a_segment_gets_one_of_its_own():
    log = open_log(MemoryDisk())
    append(log, "small")

    append(log, "x" * 5_000)
    append(log, "small")

    assert log.segment_count == 3
    assert messages(log)[1] == "x" * 5_000


def test_one_append_is_one_write():
    calls = []
    disk = InterposedDisk(MemoryDisk(), before=lambda operation, path: calls.append(operation))
    log = open_log(disk)
    calls.clear()

    append(log, "a", "b", "c")

    assert calls == ["append"]


@cases("damage", [lambda sent: sent[:-1], lambda sent: sent + b"x"])
def test_a_batch_of_the_wrong_length_is_refused(damage):
    log = open_log(MemoryDisk())

    with pytest.raises(CorruptBatchError):
        log.append([batch("good"), damage(batch("hello"))], timestamp_ms=1)

    assert log.end_offset == 0


def test_a_batch_with_a_bad_checksum_is_refused():
    log = open_log(MemoryDisk())

    with pytest.raises(CorruptBatchError, match="checksum"):
        log.append([batch("good"), batch("hello")[:-1] + b"x"], timestamp_ms=1)

    assert log.end_offset == 0


def test_a_full_disk_is_worth_another_try():
    _, log = failing_append(errno.ENOSPC)

    with pytest.raises(RetryLaterError, match="full"):
        append(log, "lost")

    assert append(log, "next") == Appended(1, 2)
    assert messages(log) == {0: "kept", 1: "next"}


def test_a_failing_write_stops_the_log_but_not_its_readers():
    _, log = failing_append(errno.EIO)

    with pytest.raises(BucketFencedError):
        append(log, "lost")
    with pytest.raises(BucketFencedError, match="restart"):
        append(log, "refused")

    assert messages(log) == {0: "kept"}


def test_a_full_disk_at_a_roll_is_worth_another_try():
    disk = InterposedDisk(MemoryDisk())
    log = filled(disk, 7)
    disk.before = Fault(1, code=errno.ENOSPC)

    with pytest.raises(RetryLaterError):
        append(log, "x" * 100)
    append(log, "next")

    assert log.segment_count == 2
    assert messages(log)[7] == "next"


def test_a_closed_log_takes_nothing():
    log = filled(MemoryDisk())
    log.close()

    with pytest.raises(StoppingError):
        append(log, "late")

    assert len(messages(log)) == 20


def test_rolling_an_empty_segment_changes_nothing():
    disk = MemoryDisk()
    log = open_log(disk, settings=LogSettings())

    log.roll()

    assert disk.listdir(DIRECTORY) == [FIRST]
