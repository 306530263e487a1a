"""The files of a state: whatever happens to the disk, a snapshot is loaded whole or not at all."""

import errno
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest

from headwater.errors import KvStorageError
from headwater.kv.heap import LEAD, HeapSegment
from headwater.kv.store import KvStore, Snapshot, described
from headwater.rows.row_bytes import PADDING
from headwater.store.local import LocalDisk
from headwater.store.memory import MemoryDisk
from tests.cases import cases
from tests.log.support import Fault, InterposedDisk
from tests.log.test_crash_states import fates

DIRECTORY = "1/0/kv"
ROUNDS = 8


def segment_of(text: bytes) -> HeapSegment:
    data = np.zeros(LEAD + len(text) + PADDING, np.uint8)
    data[LEAD : LEAD + len(text)] = np.frombuffer(text, np.uint8)
    return HeapSegment(data, LEAD + len(text), len(text))


def opened(disk, *, offset_max: int = 1_000, offset_min: int = 0):
    store = KvStore(disk, DIRECTORY)
    loaded = store.load(offset_min=offset_min, offset_max=offset_max)
    store.tidy()
    return store, loaded


class Writing:
    """Keep three segments, one of which is another each round, and save them at its offset."""

    def __init__(self, disk, *, store: KvStore | None = None) -> None:
        self.store = store or opened(disk)[0]
        self.segments: dict[int, HeapSegment] = {}

    def round(self, offset: int) -> None:
        for number in {offset % 3, *range(3 if offset == 1 else 0)}:
            self.segments[number] = segment_of(b"%d of %d" % (number, offset))
        self.save(offset)

    def save(self, offset: int) -> None:
        for segment in self.segments.values():
            if segment.serial is None:
                self.store.write(segment)
        files = tuple(described(number, each) for number, each in self.segments.items())
        nothing = np.empty(0, np.uint64)
        snapshot = Snapshot(offset, 7, files, nothing, nothing.view(np.int64))
        in_use = {each.serial for each in self.segments.values() if each.serial is not None}
        self.store.save(snapshot, in_use=in_use)


def texts(loaded) -> dict[int, bytes]:
    return {number: bytes(each.view[LEAD : each.end]) for number, each in loaded.segments.items()}


def expected(offset: int) -> dict[int, bytes]:
    """Return what the segments hold after so many rounds."""
    last = dict.fromkeys(range(3), 1)
    last |= {each % 3: each for each in range(1, offset + 1)}
    return {number: b"%d of %d" % (number, last[number]) for number in range(3)}


def check(loaded, *, offset: int) -> None:
    assert loaded.snapshot.offset == offset
    assert texts(loaded) == expected(offset)


def filled(disk) -> MemoryDisk:
    writing = Writing(disk)
    for offset in range(1, ROUNDS + 1):
        writing.round(offset)
    return disk


def names(disk) -> list[str]:
    return disk.listdir(DIRECTORY)


def path_of(disk, kind: str, at: int) -> str:
    found = [name for name in names(disk) if name.startswith(kind)]
    return f"{DIRECTORY}/{found[at]}"


def damage(disk, path: str, *, position: int = -1) -> None:
    file = disk.open(path)
    data = bytearray(file.read(0, file.size))
    data[position] ^= 1
    disk.replace(path, bytes(data))


# ---- life


@pytest.fixture(params=["memory", "local"])
def disk(request, tmp_path):
    return MemoryDisk() if request.param == "memory" else LocalDisk(tmp_path)


def test_nothing_is_loaded_where_nothing_was_saved(disk):
    store, loaded = opened(disk)

    assert loaded is None
    assert store.rebuild_offset == 0
    assert not store.names_all([])


def test_the_newest_snapshot_is_loaded_with_its_segments(disk):
    store, loaded = opened(filled(disk))

    check(loaded, offset=ROUNDS)
    assert store.faults == []
    assert store.rebuild_offset == ROUNDS - 1
    assert store.names_all([each.serial for each in loaded.segments.values()])


def test_what_no_snapshot_names_is_removed(disk):
    filled(disk)
    disk.create(f"{DIRECTORY}/segment-{999:016d}")
    disk.create(f"{DIRECTORY}/snapshot-{1:016d}.tmp")

    opened(disk)

    assert len([name for name in names(disk) if name.startswith("snapshot")]) == 2
    assert len([name for name in names(disk) if name.startswith("segment")]) == 4


def test_a_segment_in_use_stays_until_a_snapshot_is_without_it(disk):
    writing = Writing(disk)
    writing.round(1)
    kept = segment_of(b"kept")
    writing.store.write(kept)
    writing.save(2)
    assert f"segment-{kept.serial:016d}" not in names(disk)

    writing.segments[9] = segment_of(b"named")
    writing.save(3)

    assert f"segment-{writing.segments[9].serial:016d}" in names(disk)


def test_a_name_is_never_given_twice(disk):
    filled(disk)
    before = set(names(disk))

    store, loaded = opened(disk)
    writing = Writing(disk, store=store)
    writing.segments = dict(loaded.segments)
    writing.round(ROUNDS + 1)

    assert max(set(names(disk)) - before) > max(before)
    check(opened(disk)[1], offset=ROUNDS + 1)


# ---- damage


def test_a_damaged_snapshot_is_set_aside_and_the_one_before_is_used(disk):
    path = path_of(filled(disk), "snapshot", -1)
    damage(disk, path)

    store, loaded = opened(disk)

    check(loaded, offset=ROUNDS - 1)
    assert any("set aside" in fault for fault in store.faults)
    assert f"{path}.damaged".rpartition("/")[2] in names(disk)


@pytest.mark.parametrize("position", [0, LEAD, -PADDING - 1])
def test_a_damaged_segment_is_set_aside_and_the_snapshot_before_is_used(disk, position):
    damage(disk, path_of(filled(disk), "segment", -1), position=position)

    store, loaded = opened(disk)

    check(loaded, offset=ROUNDS - 1)
    assert store.faults


def test_a_segment_that_both_snapshots_need_leaves_none(disk):
    damage(disk, path_of(filled(disk), "segment", 1), position=LEAD)

    store, loaded = opened(disk)

    assert loaded is None
    assert store.faults


def test_a_missing_or_empty_segment_is_noticed(disk):
    path = path_of(filled(disk), "segment", -1)
    disk.open(path).truncate(0)
    check(opened(disk)[1], offset=ROUNDS - 1)

    disk.unlink(f"{path}.damaged")

    check(opened(disk)[1], offset=ROUNDS - 1)


def test_a_snapshot_beyond_the_end_of_the_log_is_not_taken(disk):
    store, loaded = opened(filled(disk), offset_max=ROUNDS - 1)

    check(loaded, offset=ROUNDS - 1)
    assert any("log ends" in fault for fault in store.faults)


def test_a_snapshot_before_the_start_of_the_log_does_not_hold_it_back(disk):
    store, loaded = opened(filled(disk), offset_min=ROUNDS)

    check(loaded, offset=ROUNDS)
    assert store.rebuild_offset == ROUNDS


def test_the_only_snapshot_stays_even_if_the_log_begins_later(disk):
    _, loaded = opened(filled(disk), offset_min=ROUNDS + 5)

    check(loaded, offset=ROUNDS)
    check(opened(disk)[1], offset=ROUNDS)


# ---- crashes


@dataclass
class Moment:
    image: MemoryDisk
    saved: int
    label: str


class Watched:
    """Write rounds, taking every image that a crash may leave after each operation."""

    def __init__(self) -> None:
        self.memory = MemoryDisk()
        self.moments: list[Moment] = []
        self.saved = 0
        writing = Writing(InterposedDisk(self.memory, after=self.observe))
        for offset in range(1, ROUNDS + 1):
            writing.round(offset)
            self.saved = offset

    def observe(self, operation: str, path: str) -> None:
        for label, fate in fates(self.memory.unsynced()):
            where = f"{self.saved}: {operation} {path}, {label}"
            self.moments.append(Moment(self.memory.crashed(fate), self.saved, where))


def test_after_any_crash_a_snapshot_is_loaded_that_was_saved_or_was_being_saved():
    watched = Watched()

    assert len(watched.moments) > 300
    for moment in watched.moments:
        store, loaded = opened(moment.image)
        offset = loaded.snapshot.offset if loaded else 0
        assert offset in (moment.saved, moment.saved + 1), moment.label
        assert store.faults == [], moment.label
        if loaded:
            check(loaded, offset=offset)


def test_after_any_crash_the_store_goes_on():
    for moment in Watched().moments[::5]:
        store, loaded = opened(moment.image)
        writing = Writing(moment.image, store=store)
        writing.segments = dict(loaded.segments) if loaded else {}
        offset = loaded.snapshot.offset if loaded else 0

        for step in range(1, 4):
            writing.round(offset + step)

        check(opened(moment.image)[1], offset=offset + 3)
        assert len(names(moment.image)) <= 2 + 4


# ---- faults


def survived(fault: Fault) -> bool:
    """Write all rounds with one failure on the way, and tell whether there was one."""
    memory = MemoryDisk()
    disk = InterposedDisk(memory, before=fault)
    memory.make_directories(DIRECTORY)
    saved, writing = 0, Writing(disk, store=KvStore(disk, DIRECTORY))
    for offset in range(1, ROUNDS + 1):
        try:
            writing.round(offset)
        except OSError:
            with suppress(KvStorageError):
                writing.save(offset)
                saved = offset
        except KvStorageError:
            assert fault.failed == ["sync_directory"]
        else:
            saved = offset
    for left in (memory, memory.crashed(lambda change: None)):
        _, loaded = opened(left)
        assert (loaded.snapshot.offset if loaded else 0) == saved
        assert loaded is None or texts(loaded) == expected(saved)
    return bool(fault.failed)


@cases("code", [errno.EIO, errno.ENOSPC])
def test_after_a_failure_a_store_goes_on_or_says_that_it_does_not(code):
    number = 1
    while survived(Fault(number, code=code)):
        number += 1

    assert number > 50


def test_a_segment_whose_sync_failed_is_still_read_from_memory_and_written_again():
    memory = MemoryDisk()
    failing = {"sync"}

    def fail(operation: str, path: str) -> None:
        if operation in failing:
            raise OSError(errno.EIO, "injected", path)

    writing = Writing(InterposedDisk(memory, before=fail))
    with pytest.raises(OSError, match="injected"):
        writing.round(1)
    assert [each.serial for each in writing.segments.values()] == [None] * 3

    failing.clear()
    writing.save(1)

    check(opened(memory.crashed(lambda change: None))[1], offset=1)
