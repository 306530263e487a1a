"""When written bytes are durable."""

import pytest

from headwater.errors import BucketFencedError
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import Fault, InterposedDisk, append, filled, messages, open_log


def lost(change):
    return None


def test_rows_are_durable_once_synced():
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    before = log.synced_offset

    returned = log.sync()

    assert (before, returned, log.synced_offset) == (0, 1, 1)
    assert messages(open_log(disk.crashed(lost))) == {0: "a"}


def test_rows_that_were_not_synced_are_gone_after_a_crash():
    disk = MemoryDisk()
    log = filled(disk, 3)
    append(log, "unsynced")

    log = open_log(disk.crashed(lost))

    assert log.end_offset == 3
    assert log.faults == ()


def test_what_is_found_at_opening_is_durable_before_it_is_read():
    disk = MemoryDisk()
    append(open_log(disk), "written by a process that was killed")

    log = open_log(disk)

    assert log.synced_offset == 1
    assert open_log(disk.crashed(lost)).end_offset == 1


def test_a_roll_makes_the_sealed_segment_durable():
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")

    log.roll()

    assert log.synced_offset == 1


def test_a_new_segment_survives_a_crash_once_synced():
    disk = MemoryDisk()
    log = filled(disk, 3)
    log.roll()
    append(log, "in the new one")
    log.sync()

    assert messages(open_log(disk.crashed(lost)))[3] == "in the new one"


@cases("operation", ["sync", "sync_directory"])
def test_a_failed_sync_stops_the_log_until_it_is_opened_again(operation):
    disk = InterposedDisk(MemoryDisk())
    log = filled(disk, 3)
    log.roll()
    append(log, "maybe")
    fault = Fault(1)
    disk.before = lambda name, path: fault(name, path) if name == operation else None

    with pytest.raises(BucketFencedError):
        log.sync()
    disk.before = lambda name, path: None
    for act in (log.sync, log.roll, log.checkpoint, lambda: append(log, "x")):
        with pytest.raises(BucketFencedError):
            act()

    assert log.is_fenced
    assert log.synced_offset == 3
    assert len(messages(log, up_to=log.synced_offset)) == 3


def test_a_fenced_log_closes_without_pretending():
    disk = InterposedDisk(MemoryDisk())
    log = filled(disk, 3)
    append(log, "maybe")
    disk.before = Fault(1, for_good=True)
    with pytest.raises(BucketFencedError):
        log.sync()

    log.close()

    assert disk.before.failed == ["sync"]


def test_nothing_is_synced_twice():
    calls = []
    disk = InterposedDisk(MemoryDisk(), before=lambda operation, path: calls.append(operation))
    log = filled(disk, 3)
    calls.clear()

    log.sync()

    assert calls == []
