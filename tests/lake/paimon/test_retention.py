"""Which snapshots go is decided by number, age, consumers, and who tells the boundary."""

from dataclasses import dataclass

from headwater.lake.paimon.inventory import expired_ids
from headwater.lake.spi import Retention
from headwater.model.boundary import Boundary, TableIdentity, TieringEpoch
from tests.cases import cases

BOUNDARY = Boundary(table=TableIdentity("s", 1), epoch=TieringEpoch(1, 1), round_id="r")


@dataclass
class Snapshot:
    snapshot_id: int
    committed_ms: int
    own_boundary: Boundary | None = BOUNDARY


def snapshots(count: int) -> list[Snapshot]:
    return [Snapshot(at, at * 10) for at in range(1, count + 1)]


@cases(
    ("least", "age_ms", "now_ms", "gone"),
    [
        (1, 0, 1000, [1, 2, 3, 4]),
        (3, 0, 1000, [1, 2]),
        (1, 1000, 1000, []),
        (1, 30, 60, [1, 2, 3]),
        (10, 0, 1000, []),
        (0, 0, 1000, [1, 2, 3, 4]),
    ],
)
def test_old_ones_go_from_the_oldest_on(least, age_ms, now_ms, gone):
    retention = Retention(snapshots_min=least, age_ms=age_ms)

    assert expired_ids(snapshots(5), retention, now_ms=now_ms) == gone


def test_what_a_consumer_reads_next_stays():
    retention = Retention(snapshots_min=1, age_ms=0)

    assert expired_ids(snapshots(5), retention, now_ms=1000, next_ids=[4, 3]) == [1, 2]


def test_the_last_one_that_tells_the_boundary_stays():
    held = snapshots(6)
    for each in held[3:]:
        each.own_boundary = None

    gone = expired_ids(held, Retention(snapshots_min=1, age_ms=0), now_ms=1000)

    assert gone == [1, 2]


def test_where_nobody_tells_a_boundary_none_is_waited_for():
    held = [Snapshot(at, at, None) for at in range(1, 4)]

    assert expired_ids(held, Retention(snapshots_min=1, age_ms=0), now_ms=9) == [1, 2]
