"""The batches of a lane are found among those of others, and counted without a gap."""

import pytest

from headwater.epochs.ledger import LaneKey, LanePosition, Trail
from headwater.errors import DamagedRangeError
from headwater.model.bucket import TableBucket
from headwater.rows.log_batch import build_batch, read_header
from tests.cases import cases

KEY = LaneKey("jobs", TableBucket(1, 0), 0)


def header(sequence, *, turn=0, key=KEY, offset=0):
    return read_header(
        build_batch(
            b"",
            schema_id=1,
            record_count=3,
            writer_id=key.writer_id(turn),
            sequence=sequence,
            base_offset=offset,
        )
    )


def test_only_batches_of_the_lane_from_the_position_on_count():
    trail = Trail(KEY, LanePosition(0, 2))
    other = LaneKey("jobs", KEY.bucket, 1)

    found = [
        trail.step(header(1)),
        trail.step(header(2, offset=30)),
        trail.step(header(3, key=other)),
        trail.step(header(3, offset=60)),
        trail.step(header(2)),
    ]

    assert found == [False, True, False, True, False]
    assert (trail.count, trail.next, trail.end) == (2, LanePosition(0, 4), 63)


def test_a_new_turn_goes_on_with_the_count():
    trail = Trail(KEY, LanePosition(0, 7))

    for sequence, turn in ((7, 0), (0, 1), (1, 1), (0, 2)):
        assert trail.step(header(sequence, turn=turn))

    assert (trail.count, trail.next) == (4, LanePosition(2, 1))


@cases(("sequence", "turn"), [(3, 0), (2, 1)])
def test_a_gap_is_a_fault(sequence, turn):
    trail = Trail(KEY, LanePosition(0, 2))

    with pytest.raises(DamagedRangeError, match="but 2 was expected"):
        trail.step(header(sequence, turn=turn))
