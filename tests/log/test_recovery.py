"""How a log comes back after a crash, an outage or damage."""

from contextlib import suppress
from dataclasses import replace

import pytest

from headwater.errors import DamagedRangeError, StorageError
from headwater.log.log import Appended
from headwater.log.retention import LogSettings
from headwater.log.segment import CHECKPOINT
from headwater.log.small_files import decode_checkpoint, encode_checkpoint
from headwater.rows.log_batch import build_batch
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import (
    DIRECTORY,
    SMALL,
    Fault,
    InterposedDisk,
    append,
    content,
    filled,
    flip,
    messages,
    open_log,
    overwrite,
    path_of,
)

FIRST, SECOND, LAST = (f"{base:020}.log" for base in (0, 7, 14))
SIZE = 80


def whole(count=20, *, without=()):
    return {n: f"{n:032}" for n in range(count) if n not in without}


def readable(log):
    """Return all messages outside the damaged ranges, which raise."""
    found = {}
    for offset in range(log.start_offset, log.end_offset):
        with suppress(DamagedRangeError):
            found |= messages(log, offset=offset, up_to=offset + 1)
    return found


@cases("lost", [(), ("checkpoint",), (f"{0:020}.index", f"{7:020}.index")])
def test_a_log_comes_back_without_its_small_files(lost):
    disk = MemoryDisk()
    filled(disk).close()
    for name in lost:
        disk.unlink(path_of(name))

    log = open_log(disk)
    log.close()

    assert messages(log) == whole()
    assert (log.faults, log.repairs, log.start_offset) == ((), (), 0)
    assert set(lost) <= set(disk.listdir(DIRECTORY))


@cases("name", ["checkpoint", f"{0:020}.index"])
def test_a_damaged_small_file_is_rebuilt(name):
    disk = MemoryDisk()
    filled(disk).close()
    good = content(disk, name)
    flip(disk, name, 20)

    log = open_log(disk)
    log.checkpoint()

    assert messages(log) == whole()
    assert name in log.repairs[0]
    assert len(content(disk, name)) == len(good)


@cases("tail", [b"\0" * 200, b"garbage" * 20, b"x", b"\0" * 47])
def test_a_torn_tail_is_cut_and_kept_beside_unless_it_is_zeros(tail):
    disk = MemoryDisk()
    filled(disk)
    overwrite(disk, LAST, content(disk, LAST) + tail)

    log = open_log(disk)

    assert messages(log) == whole()
    assert log.faults == ()
    assert append(log, "next") == Appended(20, 21)
    torn = [name for name in disk.listdir(DIRECTORY) if ".torn-" in name]
    assert [content(disk, name) for name in torn] == ([] if not any(tail) else [tail])
    assert len(log.repairs) == len(torn)


def test_each_torn_tail_is_kept():
    disk = MemoryDisk()
    filled(disk)
    for tail in (b"one", b"two"):
        overwrite(disk, LAST, content(disk, LAST) + tail)
        open_log(disk)

    assert content(disk, f"{LAST}.torn-1") == b"one"
    assert content(disk, f"{LAST}.torn-2") == b"two"


def test_bad_bytes_before_good_batches_are_set_aside_not_cut():
    disk = MemoryDisk()
    filled(disk)
    flip(disk, LAST, 2 * SIZE + 60)

    log = open_log(disk)

    assert readable(log) == whole(without=(16, 17, 18, 19))
    assert append(log, "next") == Appended(20, 21)
    assert "16 to 20" in log.faults[0]
    assert f"{LAST}.damaged" in disk.listdir(DIRECTORY)
    assert messages(log, offset=20) == {20: "next"}


def test_a_damaged_range_is_still_known_after_another_restart():
    disk = MemoryDisk()
    filled(disk)
    flip(disk, LAST, 2 * SIZE + 60)
    log = open_log(disk)
    append(log, "next")
    log.close()

    for _ in range(2):
        log = open_log(disk)

    assert readable(log) == whole(without=(16, 17, 18, 19)) | {20: "next"}
    assert "16 to 20" in log.faults[0]


@cases("has_checkpoint", [True, False])
def test_a_missing_segment_is_a_damaged_range(has_checkpoint):
    disk = MemoryDisk()
    filled(disk).close()
    disk.unlink(path_of(SECOND))
    if not has_checkpoint:
        disk.unlink(path_of("checkpoint"))

    log = open_log(disk)

    assert readable(log) == whole(without=range(7, 14))
    assert SECOND in log.faults[0]
    with pytest.raises(DamagedRangeError, match=r"from offset 7 on.*missing.*at offset 14"):
        log.read(9, bytes_max=100, up_to=20)


def test_a_missing_active_segment_is_noticed_by_the_checkpoint():
    disk = MemoryDisk()
    filled(disk).close()
    disk.unlink(path_of(LAST))

    log = open_log(disk)

    assert append(log, "next") == Appended(20, 21)
    assert readable(log) == whole(14) | {20: "next"}
    assert len(log.faults) == 1


@cases("has_checkpoint", [True, False])
def test_a_sealed_segment_at_the_end_is_set_aside_not_cut(has_checkpoint):
    disk = MemoryDisk()
    filled(disk).close()
    disk.unlink(path_of(LAST))
    flip(disk, SECOND, 6 * SIZE + 60)
    if not has_checkpoint:
        disk.unlink(path_of("checkpoint"))

    log = open_log(disk)

    assert readable(log) == whole(13)
    assert log.end_offset == (20 if has_checkpoint else 14)
    assert f"{SECOND}.damaged" in disk.listdir(DIRECTORY)


def test_nothing_is_appended_to_a_segment_that_was_sealed():
    disk = MemoryDisk()
    filled(disk).close()
    disk.unlink(path_of(LAST))
    disk.unlink(path_of("checkpoint"))

    append(open_log(disk), "next")

    assert len(content(disk, SECOND)) == 7 * SIZE


def test_a_segment_is_served_again_once_a_good_copy_is_put_back():
    disk = MemoryDisk()
    filled(disk).close()
    good = content(disk, SECOND)
    flip(disk, SECOND, 300)
    open_log(disk).verify(1 << 30)
    overwrite(disk, SECOND, good)

    log = open_log(disk)

    assert (readable(log), log.faults) == (whole(), ())


def test_a_missing_first_segment_is_noticed_by_the_checkpoint():
    disk = MemoryDisk()
    filled(disk).close()
    disk.unlink(path_of(FIRST))

    log = open_log(disk)

    assert log.start_offset == 0
    assert readable(log) == whole(without=range(7))


def test_swapped_segments_are_both_set_aside():
    disk = MemoryDisk()
    filled(disk).close()
    first, second = content(disk, FIRST), content(disk, SECOND)
    overwrite(disk, FIRST, second)
    overwrite(disk, SECOND, first)

    log = open_log(disk)

    assert readable(log) == whole(without=range(14))
    assert len(log.faults) == 2


def test_a_stale_checkpoint_only_means_more_to_read():
    disk = MemoryDisk()
    log = filled(disk, 16)
    log.checkpoint()
    stale = content(disk, "checkpoint")
    for number in range(16, 40):
        append(log, f"{number:032}", timestamp_ms=2_000)
    log.close()
    overwrite(disk, "checkpoint", stale)

    log = open_log(disk)

    assert messages(log) == whole(40)
    assert log.faults == ()


def test_a_batch_inside_a_torn_batch_is_not_taken_for_a_later_one():
    disk = MemoryDisk()
    filled(disk)
    inner = build_batch(b"inner", schema_id=1, record_count=1)
    outer = build_batch(inner * 3, schema_id=1, record_count=1, base_offset=20)
    overwrite(disk, LAST, content(disk, LAST) + outer[:-1])

    log = open_log(disk)

    assert (log.faults, log.end_offset) == ((), 20)


def test_leftovers_of_a_replaced_file_are_removed():
    disk = MemoryDisk()
    filled(disk)
    disk.create(path_of("checkpoint.tmp"))

    open_log(disk)

    assert "checkpoint.tmp" not in disk.listdir(DIRECTORY)


def test_recovery_reads_only_what_the_checkpoint_does_not_cover():
    lengths = []
    memory = MemoryDisk()
    settings = LogSettings(index_interval_bytes=10_000)
    log = filled(memory, 1_000, settings=settings)
    log.checkpoint()
    append(log, "after")
    log.sync()
    disk = InterposedDisk(memory, after=lambda name, path: lengths.append(name))

    log = open_log(disk, settings=settings)

    assert log.end_offset == 1_001
    assert [stored.verified for stored in log.batches(999, up_to=1_001)] == [False, True]


def test_a_disk_that_cannot_be_read_is_an_error_that_says_what_to_do():
    disk = InterposedDisk(memory := MemoryDisk())
    filled(memory)
    disk.before = Fault(3)

    with pytest.raises(StorageError, match="Check the disk"):
        open_log(disk)


@cases("restarts", [1, 2, 3])
@cases("settings", [SMALL, LogSettings()])
def test_restarts_without_writes_leave_a_good_log_good(restarts, settings):
    disk = MemoryDisk()
    filled(disk, settings=settings).close()

    for _ in range(restarts):
        open_log(disk, settings=settings).close()
    log = open_log(disk, settings=settings)

    log.verify(1 << 30)
    assert not log.faults
    assert readable(log) == whole()


@cases("restarts", [1, 2])
def test_a_roll_right_after_a_restart_leaves_a_good_log_good(restarts):
    disk = MemoryDisk()
    filled(disk).close()

    for _ in range(restarts):
        log = open_log(disk)
        log.roll()
        log.close()
    log = open_log(disk)

    log.verify(1 << 30)
    assert not log.faults
    assert readable(log) == whole()


def test_a_checkpoint_without_the_chain_of_its_tail_is_taken_as_it_is():
    disk = MemoryDisk()
    filled(disk).close()
    known = decode_checkpoint(content(disk, CHECKPOINT))
    tail = replace(known.marks[-1], chain=0)
    overwrite(disk, CHECKPOINT, encode_checkpoint(replace(known, marks=(*known.marks[:-1], tail))))

    log = open_log(disk)

    log.verify(1 << 30)
    assert not log.faults
    assert readable(log) == whole()
