"""No flipped bit and no cut goes unnoticed, and what is good is still served."""

import struct
from contextlib import suppress

import pytest

from headwater.errors import DamagedRangeError
from headwater.rows.log_batch import iterate
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import content, filled, flip, messages, open_log, overwrite

FIRST, SECOND, LAST = (f"{base:020}.log" for base in (0, 7, 14))
SIZE = 80
HEADER = 48
TIMESTAMP = range(13, 21)


def model(count=20):
    return {n: f"{n:032}" for n in range(count)}


def closed_log():
    disk = MemoryDisk()
    filled(disk).close()
    return disk


def killed_log():
    """Return a log without any checkpoint, as after the first crash of its life."""
    disk = MemoryDisk()
    filled(disk)
    return disk


def readable(log):
    """Return what reads serve, one offset at a time."""
    found = {}
    for offset in range(log.start_offset, log.end_offset):
        with suppress(DamagedRangeError):
            found |= messages(log, offset=offset, up_to=min(offset + 1, log.end_offset))
    return found


def check(log, *, good):
    """Reads serve only true rows, the rest is reported, and other segments are untouched."""
    log.verify(1 << 30)
    served = readable(log)

    assert served.items() <= model().items()
    assert good <= set(served)
    assert set(served) == set(model()) or log.faults or log.repairs
    assert log.faults or log.repairs


@cases("position", range(SIZE))
def test_any_flipped_byte_of_a_sealed_segment_is_noticed(position):
    disk = closed_log()
    flip(disk, SECOND, 2 * SIZE + position, bit=position % 8)

    check(open_log(disk), good={*range(9), *range(14, 20)} - {7, 8})


@cases("position", range(HEADER))
@cases("bit", [0, 7])
def test_any_flipped_header_byte_before_the_checkpoint_is_noticed(position, bit):
    disk = closed_log()
    flip(disk, LAST, 3 * SIZE + position, bit=bit)

    check(open_log(disk), good=set(range(14)))


@cases("position", [each for each in range(SIZE) if each not in TIMESTAMP])
def test_any_flipped_byte_after_the_checkpoint_is_noticed(position):
    disk = killed_log()
    flip(disk, LAST, 3 * SIZE + position, bit=position % 8)

    log = open_log(disk)

    check(log, good=set(range(17)))
    assert log.end_offset == 20


def test_a_timestamp_after_the_checkpoint_is_only_noticed_when_time_goes_back():
    """The index, which covers timestamps, is written when a segment is sealed or checkpointed."""
    forward, back = killed_log(), killed_log()
    flip(forward, LAST, 5 * SIZE + 14, bit=7)
    flip(back, LAST, 3 * SIZE + 14, bit=0)

    assert open_log(forward).faults == ()
    assert open_log(back).faults != ()


@cases("name", [SECOND, LAST])
@cases("step", range(64))
def test_a_flipped_bit_at_any_64th_of_a_file_is_noticed(name, step):
    disk = closed_log()
    size = len(content(disk, name))
    flip(disk, name, step * size // 64, bit=step % 8)

    check(open_log(disk), good=set(range(7)))


@cases("name", [FIRST, SECOND, LAST])
@cases("cut", [1, 2, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE, 6 * SIZE])
def test_a_cut_file_is_noticed(name, cut):
    disk = closed_log()
    whole = content(disk, name)
    overwrite(disk, name, whole[:-cut])
    base = int(name[:20])

    log = open_log(disk)

    kept = (len(whole) - cut) // SIZE
    check(log, good=set(range(base)) | set(range(base, base + kept)))
    assert log.end_offset == 20


@cases("name", [FIRST, SECOND, LAST])
def test_zeroed_bytes_are_noticed(name):
    disk = closed_log()
    whole = content(disk, name)
    overwrite(disk, name, whole[:100] + bytes(200) + whole[300:])

    check(open_log(disk), good=set(model()) - set(range(int(name[:20]), int(name[:20]) + 7)))


@cases("position", range(0, SIZE, 5))
def test_damage_that_appears_while_the_log_is_open_is_set_aside_on_reading(position):
    disk = closed_log()
    log = open_log(disk)
    flip(disk, SECOND, 2 * SIZE + position)
    if position in TIMESTAMP:
        log.verify(1 << 30)

    served = readable(log)

    assert served.items() <= model().items()
    assert {*range(7), *range(14, 20)} <= set(served) < set(model())
    assert "damaged" in log.faults[0]


def test_a_damaged_range_stays_after_a_restart_even_if_only_the_index_tells():
    disk = closed_log()
    flip(disk, SECOND, 5 * SIZE + TIMESTAMP[2])
    log = open_log(disk)
    log.verify(1 << 30)
    first = log.faults

    assert first
    assert open_log(disk).faults[0].split(":")[:2] == first[0].split(":")[:2]


def test_a_batch_that_claims_too_many_records_does_not_end_a_read_in_silence():
    disk = closed_log()
    data = bytearray(content(disk, SECOND))
    struct.pack_into("<i", data, 2 * SIZE + 28, 1_000)
    struct.pack_into("<i", data, 2 * SIZE + 44, 1_001)
    overwrite(disk, SECOND, bytes(data))

    with pytest.raises(DamagedRangeError):
        list(open_log(disk).batches(7, up_to=20))
    log = open_log(disk)
    with pytest.raises(DamagedRangeError):
        log.read(9, bytes_max=100, up_to=20)


def test_offsets_of_a_bad_last_batch_behind_damage_are_not_used_again():
    disk = killed_log()
    flip(disk, LAST, 2 * SIZE + 60)
    flip(disk, LAST, 5 * SIZE + 60)

    assert open_log(disk).end_offset == 20


def test_nothing_is_ever_deleted():
    disk = closed_log()
    before = content(disk, SECOND)
    flip(disk, SECOND, 300)
    log = open_log(disk)
    log.verify(1 << 30)
    log.delete_before(20)

    kept = content(disk, f"{SECOND}.damaged")

    assert len(kept) == len(before)
    assert [header.base_offset for header, _ in iterate(before)] == list(range(7, 14))


def test_one_damaged_bucket_leaves_the_others_alone():
    disk = closed_log()
    other = MemoryDisk()
    filled(other)
    flip(disk, FIRST, 100)

    assert open_log(other).faults == ()
    assert messages(open_log(other)) == model()
