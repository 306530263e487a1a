"""What to do with a commit."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.boundary import TableIdentity, TieringEpoch
from headwater.tiering.commit import Adopt, CommitAfter, Differs, Fenced, Moved, decide
from tests.tiering.values import EPOCH, boundary, snapshot

HELD = boundary({0: (0, 4)}, epoch=TieringEpoch(1, 4), round_id="before")
WANTED = boundary({0: (0, 9)}, round_id="mine")
HEAD = snapshot(3, HELD)

EPOCHS = st.builds(TieringEpoch, st.integers(0, 2), st.integers(0, 2))
BOUNDARIES = st.builds(
    lambda ranges, epoch, round_id, table: boundary(
        ranges, epoch=epoch, round_id=round_id, table=table
    ),
    st.dictionaries(st.integers(0, 1), st.integers(0, 3).map(lambda end: (0, end))),
    EPOCHS,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([TableIdentity("s", 1), TableIdentity("s", 2)]),
)


def decided(head, *, held=HELD, found=None):
    return decide(WANTED, held=held, head=head, found=found)


def test_a_lake_that_is_as_it_was_planned_from_is_committed_to():
    assert decided(HEAD) == CommitAfter(HEAD)


def test_an_empty_lake_is_committed_to_if_the_round_was_planned_from_nothing():
    assert decided(None, held=None) == CommitAfter(None)


def test_a_snapshot_of_upkeep_or_of_others_that_carries_the_boundary_on_is_built_on():
    head = snapshot(4, HELD, parent=3)

    assert decided(head) == CommitAfter(head)


def test_a_round_that_is_found_in_the_lake_is_done():
    found = snapshot(4, WANTED)

    assert decided(snapshot(9, boundary({0: (0, 99)})), found=found) == Adopt(found)


def test_a_round_whose_boundary_was_carried_on_is_done():
    head = snapshot(5, WANTED, parent=4)

    assert decided(head) == Adopt(head)


def test_a_later_epoch_fences():
    by = replace(HELD, epoch=TieringEpoch(1, 6))

    assert decided(snapshot(4, by)) == Fenced(by)


def test_a_lake_table_that_became_another_is_left_alone():
    other = replace(HELD, table=TableIdentity("elsewhere", 1))

    assert decided(snapshot(4, other)) == Differs(other)


def test_other_offsets_ask_for_another_plan():
    moved = boundary({0: (0, 5)}, epoch=EPOCH)

    assert decided(snapshot(4, moved)) == Moved(moved)
    assert decided(None) == Moved(None)


@given(BOUNDARIES, st.none() | BOUNDARIES, st.none() | BOUNDARIES)
def test_a_commit_is_tried_only_where_it_replaces_what_it_was_planned_from(wanted, held, now):
    head = None if now is None else snapshot(1, now)

    decision = decide(wanted, held=held, head=head, found=None)

    if isinstance(decision, CommitAfter):
        ranges = {} if now is None else now.ranges
        assert ranges == ({} if held is None else held.ranges)
        assert now is None or (now.epoch <= wanted.epoch and now.table == wanted.table)
        assert now is None or now.round_id != wanted.round_id
