"""Which segments retention takes, and what a crash in between leaves."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.retention import SegmentSpan, expired_segments, should_roll_expired
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import DIRECTORY, InterposedDisk, append, filled, messages, open_log

SPANS = [
    SegmentSpan(0, 10, 100, 1_000),
    SegmentSpan(10, 20, 100, 2_000),
    SegmentSpan(20, 30, 100, 3_000),
    SegmentSpan(30, 35, 50, 4_000),
]
ALL = 1 << 60


def expired(*, now_ms=0, ttl_ms=None, bytes_max=None, needed_from=ALL):
    return expired_segments(
        SPANS, now_ms=now_ms, ttl_ms=ttl_ms, bytes_max=bytes_max, needed_from=needed_from
    )


@cases(("now_ms", "start"), [(1_500, 0), (1_501, 10), (2_600, 20), (3_501, 30), (99_999, 30)])
def test_a_segment_goes_when_its_newest_row_has_expired(now_ms, start):
    assert expired(now_ms=now_ms, ttl_ms=500) == start


@cases(("bytes_max", "start"), [(350, 0), (349, 10), (250, 10), (249, 20), (0, 30)])
def test_the_oldest_go_while_there_is_too_much(bytes_max, start):
    assert expired(bytes_max=bytes_max) == start


@cases(("needed_from", "start"), [(0, 0), (9, 0), (10, 10), (29, 20), (40, 30)])
def test_what_is_still_needed_stays(needed_from, start):
    assert expired(now_ms=99_999, ttl_ms=1, needed_from=needed_from) == start


def test_without_limits_everything_stays():
    assert expired(now_ms=99_999) == 0


@given(st.integers(0, 6_000), st.integers(0, 400), st.integers(0, 40))
def test_no_limit_takes_the_active_segment_or_what_is_needed(now_ms, bytes_max, needed_from):
    start = expired(now_ms=now_ms, ttl_ms=100, bytes_max=bytes_max, needed_from=needed_from)

    assert start in {0, 10, 20, 30}
    assert start <= max(needed_from, 0)


def test_an_idle_active_segment_is_rolled_once_its_rows_have_expired():
    def should_roll(span, *, now_ms, needed_from=ALL):
        return should_roll_expired(span, now_ms=now_ms, ttl_ms=500, needed_from=needed_from)

    assert not should_roll(SPANS[-1], now_ms=4_500)
    assert should_roll(SPANS[-1], now_ms=4_501)
    assert not should_roll(SPANS[-1], now_ms=4_501, needed_from=34)
    assert not should_roll(SegmentSpan(35, 35, 0, 4_000), now_ms=99_999)


def test_whole_segments_before_an_offset_are_deleted():
    disk = MemoryDisk()
    log = filled(disk)

    assert log.delete_before(13) == 7
    assert log.delete_before(10_000) == 14

    assert log.start_offset == 14
    assert messages(log) == {n: f"{n:032}" for n in range(14, 20)}
    assert disk.listdir(DIRECTORY) == ["00000000000000000014.log", "checkpoint"]


def test_the_log_start_survives_a_restart():
    disk = MemoryDisk()
    filled(disk).delete_before(13)

    log = open_log(disk)

    assert (log.start_offset, log.end_offset, log.faults) == (7, 20, ())


def test_expired_data_of_an_idle_bucket_can_be_rolled_away():
    log = filled(MemoryDisk())

    log.roll()
    log.delete_before(log.end_offset)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (20, 20, 0)
    assert append(log, "next").base_offset == 20


def test_files_of_deleted_segments_stay_until_they_are_due_also_over_a_restart():
    disk = MemoryDisk()
    filled(disk).delete_before(13, due_ms=5_000)
    kept = "00000000000000000000.log.deleted-5000"

    log = open_log(disk)

    assert kept in disk.listdir(DIRECTORY)
    assert (log.start_offset, log.faults, log.repairs) == (7, (), ())
    assert [log.has_deleted_files(now_ms) for now_ms in (4_999, 5_000)] == [False, True]
    log.remove_deleted(4_999)
    assert kept in disk.listdir(DIRECTORY)
    log.remove_deleted(5_000)
    assert kept not in disk.listdir(DIRECTORY)
    assert not log.has_deleted_files(9_999)


def test_the_age_of_the_active_segment_is_that_of_its_first_batch():
    log = open_log(MemoryDisk())
    before = log.active_since_ms()
    append(log, "first", timestamp_ms=3_000)
    append(log, "second", timestamp_ms=9_000)

    first = log.active_since_ms()
    log.roll()

    assert (before, first, log.active_since_ms()) == (None, 3_000, None)


@cases("due_ms", [None, 5_000])
def test_a_crash_at_any_step_of_a_deletion_leaves_no_gap(due_ms):
    images = []
    disk = InterposedDisk(memory := MemoryDisk())
    log = filled(disk)
    disk.after = lambda operation, path: images.extend(
        (memory.crashed(lambda change: None), memory.crashed(lambda change: change.data))
    )

    log.delete_before(14, due_ms=due_ms)

    assert len(images) > 5
    for image in images:
        reopened = open_log(image)
        assert reopened.faults == ()
        assert reopened.start_offset in {0, 14}
        assert set(messages(reopened)) == set(range(reopened.start_offset, 20))
