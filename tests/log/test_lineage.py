"""Who wrote which offsets, so that a copy that goes on by itself can be told from its original."""

from headwater.log.log import Log
from headwater.model.bucket import STARTS_MAX, Lineage, Start
from headwater.store.memory import MemoryDisk
from tests.log.support import DIRECTORY, FixedClock, batch


def opened(disk, incarnation):
    return Log.open(disk, DIRECTORY, clock=FixedClock(), incarnation=incarnation)


def crashed(disk):
    return disk.crashed(lambda change: None)


def append(log, count):
    for number in range(count):
        log.append([batch(f"{number}")], timestamp_ms=1_000)
    log.sync()


def test_a_copy_tells_positions_of_its_original_from_its_own():
    original = MemoryDisk()
    log = opened(original, 11)
    append(log, 5)
    copy = opened(crashed(original), 22)
    append(log, 5)
    (before, after), theirs = (log.lineage.writer_before(each) for each in (5, 9)), log.lineage

    append(copy, 7)

    assert (before, after) == (11, 11)
    assert copy.lineage.holds(5, 11)
    assert not copy.lineage.holds(6, 11)
    assert copy.lineage.writer_before(6) == 22
    assert not theirs.holds(6, 22)


def test_a_start_is_known_after_a_crash_as_soon_as_a_row_is_there():
    disk = MemoryDisk()
    for incarnation in (11, 22, 33):
        log = opened(crashed(disk), incarnation)
        disk = log._state.disk
        append(log, 2)

    assert opened(crashed(disk), 44).lineage.starts == (
        Start(11, 0),
        Start(22, 2),
        Start(33, 4),
        Start(44, 6),
    )


def test_starts_that_wrote_nothing_and_those_before_the_log_are_forgotten():
    lineage = Lineage()
    for number in range(1, 4):
        lineage = lineage.continued(number, 0)
    for number in range(4, 8):
        lineage = lineage.continued(number, number)

    assert [start.incarnation for start in lineage.starts] == [3, 4, 5, 6, 7]
    assert [start.incarnation for start in lineage.since(5).starts] == [4, 5, 6, 7]


def test_what_a_log_has_forgotten_is_believed():
    lineage = Lineage((Start(5, 100), Start(6, 200)))

    assert lineage.holds(100, 4)
    assert not lineage.holds(101, 4)
    assert lineage.holds(10_000, 0)
    assert Lineage().holds(7, 3)


def test_a_log_remembers_so_many_starts():
    lineage = Lineage()
    for number in range(STARTS_MAX + 10):
        lineage = lineage.continued(number + 1, number)

    assert len(lineage.starts) == STARTS_MAX
