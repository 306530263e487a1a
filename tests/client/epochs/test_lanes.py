"""Lanes have writer ids that everybody can work out, and positions that only grow."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.epochs.ledger import SEQUENCE_MAX, LaneKey, LanePosition
from headwater.model.bucket import TableBucket

KEY = LaneKey("jobs", TableBucket(7, 1, None), 0)
positions = st.builds(LanePosition, st.integers(0, 2**30), st.integers(0, SEQUENCE_MAX))


def test_a_writer_id_is_the_same_for_everybody_and_stays_so():
    assert KEY.writer_id(0) == LaneKey("jobs", TableBucket(7, 1), 0).writer_id(0)
    assert KEY.writer_id(0) == 6800049321338674563


def test_whatever_tells_lanes_apart_tells_their_writer_ids_apart():
    others = [
        LaneKey("job", TableBucket(7, 1, None), 0),
        LaneKey("jobs", TableBucket(8, 1, None), 0),
        LaneKey("jobs", TableBucket(7, 2, None), 0),
        LaneKey("jobs", TableBucket(7, 1, 0), 0),
        LaneKey("jobs", TableBucket(7, 1, None), 1),
        LaneKey("0/jobs", TableBucket(7, 1, None), 0),
    ]

    ids = {key.writer_id(turn) for key in [KEY, *others] for turn in range(3)}

    assert len(ids) == 3 * (len(others) + 1)


@given(st.text(), st.integers(0, 2**40), st.integers(0, 100), st.integers(0, 9))
def test_no_server_hands_such_ids_out(sink, table_id, lane, turn):
    writer_id = LaneKey(sink, TableBucket(table_id, 0), lane).writer_id(turn)

    assert 2**62 <= writer_id < 2**63


@given(positions, positions)
def test_positions_are_packed_into_numbers_of_the_same_order(first, second):
    assert LanePosition.unpacked(first.packed) == first
    assert (first < second) == (first.packed < second.packed)
    assert first.packed < 2**63


def test_a_turn_ends_before_its_numbers_run_out():
    assert LanePosition(3, 1000).with_room == LanePosition(3, 1000)
    assert LanePosition(3, SEQUENCE_MAX - 5).with_room == LanePosition(4, 0)
