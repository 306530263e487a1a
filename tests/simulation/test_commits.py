"""Histories of a lake table in which something went back, or came late, are found out."""

from headwater.model.boundary import Boundary, LakeBucket, TableIdentity, TieringEpoch
from headwater.model.bucket import OffsetRange
from headwater.model.path import TablePath
from tests.cases import cases
from tests.simulation.commits import Committed, faults_of

TABLE = TablePath("fluss", "t")


def commit(number, *, turn, end, round_id="", on=None, fence=None):
    """Return the so many-th commit of a table; by default it stands on the one before."""
    boundary = Boundary(
        table=TableIdentity("storage", 1),
        epoch=TieringEpoch(1, turn),
        round_id=round_id or str(number),
        ranges={LakeBucket(None, 0): OffsetRange(0, end)},
    )
    parent_id = number - 1 if on is None else on
    fenced = None if fence is None else TieringEpoch(1, fence)
    return Committed(TABLE, parent_id or None, boundary, fenced)


FIRST = commit(1, turn=1, end=5)


def test_a_history_that_only_goes_on_is_good():
    claim = commit(2, turn=2, end=5)
    second = commit(3, turn=2, end=9, fence=2)

    assert list(faults_of([FIRST, claim, second])) == []


def test_upkeep_may_come_while_others_write():
    kept = commit(2, turn=1, end=5, round_id="1", fence=2)

    assert list(faults_of([FIRST, kept])) == []


@cases(
    ("second", "fault"),
    [
        (commit(2, turn=0, end=9), "comes after one of"),
        (commit(2, turn=1, end=4), "ends before"),
        (commit(2, turn=1, end=9, fence=2), "is late"),
        (commit(1, turn=1, end=9, on=0), "not the newest"),
    ],
)
def test_a_history_that_goes_back_is_found_out(second, fault):
    (found,) = faults_of([FIRST, second])

    assert fault in found
