"""How resends are recognised and gaps refused."""

import errno

import pytest

from headwater.errors import OutOfOrderSequenceError, RetryLaterError, UnknownWriterError
from headwater.log.log import Appended
from headwater.log.retention import LogSettings
from headwater.log.writers import SEQUENCE_MAX, KeptBatch, Writers
from headwater.model.bucket import COMPUTED_BIT
from headwater.rows.log_batch import read_header
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import DIRECTORY, FixedClock, InterposedDisk, batch, open_log

DAY_MS = 24 * 3600 * 1000


def send(log, sequence, *, writer_id=7, records=2, timestamp_ms=1_000):
    sent = batch("x", records=records, writer_id=writer_id, sequence=sequence)
    return log.append([sent], timestamp_ms=timestamp_ms)


def started(count=8, *, disk=None):
    log = open_log(disk or MemoryDisk())
    for sequence in range(count):
        send(log, sequence)
    return log


def test_the_next_sequence_is_written():
    log = started()

    assert send(log, 8) == Appended(16, 18)


@cases("sequence", [3, 5, 7])
def test_a_resend_of_a_kept_batch_is_answered_with_its_offsets(sequence):
    log = started()

    again = send(log, sequence)

    assert again == Appended(2 * sequence, 2 * sequence + 2, duplicate=True)
    assert log.end_offset == 16


@cases("sequence", [0, 2, 9, 100])
def test_a_gap_and_a_forgotten_batch_are_refused(sequence):
    log = started()

    with pytest.raises(OutOfOrderSequenceError, match="the next one is 8"):
        send(log, sequence)

    assert log.end_offset == 16


def test_a_resend_with_another_count_is_refused():
    log = started()

    with pytest.raises(OutOfOrderSequenceError):
        send(log, 7, records=3)


def test_an_unknown_writer_starts_at_zero():
    log = started()

    with pytest.raises(OutOfOrderSequenceError, match="the next one is 0"):
        send(log, 1, writer_id=8)
    assert send(log, 0, writer_id=8) == Appended(16, 18)


def test_batches_without_a_writer_are_never_compared():
    log = open_log(MemoryDisk())

    for _ in range(3):
        log.append([batch("same")], timestamp_ms=1)

    assert log.end_offset == 3


def test_one_append_may_hold_several_batches_of_several_writers():
    log = open_log(MemoryDisk())
    sent = [batch(writer_id=w, sequence=s) for w, s in ((1, 0), (2, 0), (1, 1), (2, 1))]

    first = log.append(sent, timestamp_ms=1)
    again = log.append(sent, timestamp_ms=2)

    assert first == Appended(0, 4)
    assert again == Appended(0, 4, duplicate=True)


def test_an_append_of_old_and_new_batches_is_refused_as_a_whole():
    log = started()
    sent = [batch(records=2, writer_id=7, sequence=sequence) for sequence in (7, 8)]

    with pytest.raises(OutOfOrderSequenceError):
        log.append(sent, timestamp_ms=1)

    assert log.end_offset == 16


def test_the_sequence_wraps_to_zero():
    kept = KeptBatch(SEQUENCE_MAX, 0, 1, 1)
    writers = Writers({7: (kept,)}, kept_max=5)

    assert writers.resent([read_header(batch(writer_id=7, sequence=0))]) == ()


@cases("how", ["closed", "crashed", "without checkpoint"])
def test_writers_are_known_after_a_restart(how):
    disk = MemoryDisk()
    log = started(disk=disk)
    log.sync() if how == "crashed" else log.close()
    if how == "without checkpoint":
        disk.unlink(f"{DIRECTORY}/checkpoint")

    log = open_log(disk.crashed(lambda change: None))

    assert send(log, 6) == Appended(12, 14, duplicate=True)
    assert send(log, 8) == Appended(16, 18)


def test_a_resend_of_a_batch_that_a_crash_lost_is_written():
    disk = MemoryDisk()
    log = started(disk=disk)
    log.checkpoint()
    send(log, 8)

    log = open_log(disk.crashed(lambda change: None))

    assert send(log, 8) == Appended(16, 18)


def test_an_idle_writer_is_forgotten_at_a_checkpoint():
    clock = FixedClock()
    settings = LogSettings(writer_expiration_ms=DAY_MS)
    log = open_log(MemoryDisk(), settings=settings, clock=clock)
    send(log, 0, writer_id=1, timestamp_ms=clock.milliseconds)
    clock.milliseconds += DAY_MS + 1
    send(log, 0, writer_id=2, timestamp_ms=clock.milliseconds)

    log.checkpoint()

    with pytest.raises(OutOfOrderSequenceError):
        send(log, 1, writer_id=1)
    assert send(log, 1, writer_id=2) == Appended(4, 6)


def written(log, sequence, text, *, writer_id=7, owner=0):
    sent = batch(text, records=2, writer_id=writer_id, sequence=sequence)
    return log.append([sent], timestamp_ms=1_000, owner=owner)


@cases("how", ["running", "closed", "crashed"])
def test_other_rows_under_a_number_that_was_used_are_refused_and_never_answered_for(how):
    disk = MemoryDisk()
    log = started(disk=disk)
    if how != "running":
        log.sync() if how == "crashed" else log.close()
        log = open_log(disk.crashed(lambda change: None))

    for sequence in (4, 7):
        with pytest.raises(OutOfOrderSequenceError, match="with different rows"):
            written(log, sequence, "other")

    assert log.end_offset == 16


def test_a_checkpoint_of_an_older_version_tells_resends_by_their_number():
    kept = KeptBatch(3, 6, 8, 1)
    writers = Writers({7: (kept,)}, kept_max=5)

    again = writers.resent([read_header(batch("any", records=2, writer_id=7, sequence=3))])

    assert again == (kept,)


def test_a_computed_id_belongs_to_the_first_who_writes_with_it_through_crashes():
    disk, computed = MemoryDisk(), COMPUTED_BIT | 5
    log = open_log(disk)
    written(log, 0, "mine", writer_id=computed, owner=11)
    log.sync()

    log = open_log(disk.crashed(lambda change: None))

    with pytest.raises(UnknownWriterError, match="another user"):
        written(log, 1, "theirs", writer_id=computed, owner=12)
    with pytest.raises(UnknownWriterError):
        written(log, 0, "mine", writer_id=computed, owner=12)
    assert written(log, 1, "more", writer_id=computed, owner=11) == Appended(2, 4)


def test_an_id_that_could_not_be_noted_is_nobodys():
    broken = []

    def refuse(operation, path):
        if broken and operation == "rename":
            raise OSError(errno.ENOSPC, "full")

    log = open_log(InterposedDisk(MemoryDisk(), before=refuse))
    broken.append(True)
    with pytest.raises(RetryLaterError):
        written(log, 0, "mine", writer_id=COMPUTED_BIT | 5, owner=11)
    broken.clear()

    assert written(log, 0, "theirs", writer_id=COMPUTED_BIT | 5, owner=12) == Appended(0, 2)
