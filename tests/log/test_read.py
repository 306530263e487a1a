"""How a log is read."""

import pytest

from headwater.errors import CorruptBatchError, OffsetOutOfRangeError
from headwater.log.log import HOT_BYTES
from headwater.log.retention import LogSettings
from headwater.rows.log_batch import iterate, read_header
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import (
    InterposedDisk,
    append,
    filled,
    flip,
    messages,
    open_log,
)

SIZE = 80


def offsets(data):
    return [header.base_offset for header, _ in iterate(data)]


@cases("offset", range(20))
def test_a_read_starts_at_any_offset(offset):
    log = filled(MemoryDisk())

    assert messages(log, offset=offset) == {n: f"{n:032}" for n in range(offset, 20)}


def test_a_read_in_the_middle_of_a_batch_returns_the_whole_batch():
    log = open_log(MemoryDisk())
    append(log, "a", "b", "c", records=10)

    assert offsets(log.read(15, bytes_max=1, up_to=30)) == [10]


def test_a_read_returns_as_many_batches_as_fit():
    log = filled(MemoryDisk(), 7)

    assert offsets(log.read(2, bytes_max=3 * SIZE, up_to=7)) == [2, 3, 4]
    assert offsets(log.read(2, bytes_max=4 * SIZE - 1, up_to=7)) == [2, 3, 4]


def test_a_read_returns_a_batch_that_is_too_large_unless_told_otherwise():
    log = filled(MemoryDisk(), 7)

    assert offsets(log.read(2, bytes_max=1, up_to=7)) == [2]
    assert log.read(2, bytes_max=1, up_to=7, at_least_one=False) == b""


def test_a_batch_larger_than_every_buffer_is_read_whole():
    log = open_log(MemoryDisk(), settings=LogSettings())
    append(log, "a", "x" * 1_000_000, "b")

    assert len(log.read(1, bytes_max=10, up_to=3)) == 1_000_048


def test_a_read_ends_at_the_given_offset():
    log = filled(MemoryDisk(), 7)

    assert offsets(log.read(2, bytes_max=10_000, up_to=5)) == [2, 3, 4]
    assert log.read(5, bytes_max=10_000, up_to=5) == b""


def test_a_batch_that_reaches_over_the_given_offset_is_left_out():
    log = open_log(MemoryDisk())
    append(log, "a", "b", records=10)

    assert offsets(log.read(0, bytes_max=1_000, up_to=15)) == [0]
    assert log.read(10, bytes_max=1_000, up_to=15) == b""
    assert list(log.batches(10, up_to=15)) == []


def test_a_read_is_one_read_of_the_file():
    calls = []
    disk = InterposedDisk(MemoryDisk(), before=lambda operation, path: calls.append(operation))
    log = filled(disk, 7)
    calls.clear()

    log.read(3, bytes_max=10_000, up_to=7)

    assert calls == ["read"]


@cases("offset", [-2, 13, 21])
def test_an_offset_outside_the_log_is_refused(offset):
    log = filled(MemoryDisk())
    log.delete_before(19)

    with pytest.raises(OffsetOutOfRangeError):
        log.read(offset, bytes_max=100, up_to=20)
    with pytest.raises(OffsetOutOfRangeError):
        next(log.batches(offset, up_to=20))


def test_batches_are_iterated_across_segments():
    log = filled(MemoryDisk())

    found = [stored.header.base_offset for stored in log.batches(5, up_to=18)]

    assert found == list(range(5, 18))


def test_of_a_large_batch_only_the_wanted_bytes_are_read():
    log = open_log(MemoryDisk(), settings=LogSettings())
    append(log, "x" * 1_000_000, "y" * 1_000_000)

    found = [stored.read(999_990, 999_992) for stored in log.batches(0, up_to=2)]
    chunks = [len(stored.window._chunk) for stored in log.batches(0, up_to=2)]

    assert found == [b"xx", b"yy"]
    assert max(chunks) <= 64 << 10


def test_batches_of_this_process_are_verified_and_others_once_scrubbed():
    disk = MemoryDisk()
    filled(disk).close()
    log = open_log(disk)
    append(log, "new")

    before = [stored.verified for stored in log.batches(0, up_to=21)]
    checked = log.verify(1 << 30)
    after = [stored.verified for stored in log.batches(0, up_to=21)]

    assert before == [False] * 20 + [True]
    assert checked == 20 * SIZE
    assert after == [True] * 21


def test_a_scrub_goes_on_where_it_stopped():
    disk = MemoryDisk()
    filled(disk).close()
    log = open_log(disk)

    steps = []
    while step := log.verify(1):
        steps.append(step)

    assert sum(steps) == 20 * SIZE
    assert max(steps) <= 200


def test_a_stored_batch_is_verified_on_demand():
    disk = MemoryDisk()
    filled(disk).close()
    flip(disk, "00000000000000000000.log", SIZE + 60)
    first, second, *_ = open_log(disk).batches(0, up_to=20)

    first.verify()
    with pytest.raises(CorruptBatchError):
        second.verify()


@cases("number", [0, 6, 7, 13, 19])
def test_a_timestamp_leads_to_the_first_batch_at_or_after_it(number):
    log = open_log(MemoryDisk())
    for each in range(20):
        append(log, f"{each:032}", timestamp_ms=1_000 + 10 * each)

    assert log.offset_for_timestamp(1_000 + 10 * number) == number
    assert log.offset_for_timestamp(1_000 + 10 * number - 5) == number


def test_a_timestamp_after_everything_leads_to_the_end():
    log = filled(MemoryDisk())

    assert log.offset_for_timestamp(9_999) == 20
    assert log.offset_for_timestamp(0) == 0


def test_a_timestamp_never_leads_before_the_log_start():
    log = filled(MemoryDisk())
    log.delete_before(10)

    assert log.offset_for_timestamp(0) == log.start_offset == 7


def test_what_was_just_written_is_hot_and_what_is_older_is_not():
    disk = MemoryDisk()
    filled(disk, 5).close()
    log = open_log(disk, settings=LogSettings())
    for _ in range(3):
        append(log, "x" * (HOT_BYTES // 2 - 48))

    assert [log.is_hot(offset) for offset in range(8)] == [False] * 6 + [True] * 2


def test_a_segment_can_be_read_while_retention_deletes_it():
    log = filled(MemoryDisk())
    iterator = log.batches(0, up_to=20)
    first = next(iterator)

    log.delete_before(20)

    assert read_header(first.read(0, 48)).base_offset == 0
    assert next(iterator).header.base_offset == 1
