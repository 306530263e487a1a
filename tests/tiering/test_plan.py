"""Which offsets a round tiers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import (
    LakeAheadError,
    LakeTableDiffersError,
    LogGapError,
    TieringFencedError,
)
from headwater.model.boundary import TableIdentity, TieringEpoch
from headwater.model.bucket import OffsetRange
from headwater.read.offsets import Place
from headwater.read.split import LogRange, StateAt
from headwater.tiering.plan import Limits, is_report_behind, plan_round
from tests.cases import cases
from tests.tiering.values import EPOCH, LIMITS, boundary, bucket, view

OFFSET = st.integers(0, 50)


def log(number, start, end):
    return LogRange.of(Place(None, number), bucket(number), OffsetRange(start, end))


def planned(held, seen, *, epoch=EPOCH, limits=LIMITS):
    return plan_round(held, seen, epoch=epoch, limits=limits)


def test_the_first_round_of_a_log_takes_all_that_the_log_holds():
    plan = planned(None, view({0: (3, 9)}))

    assert plan.splits == (log(0, 3, 9),)


def test_a_later_round_goes_on_where_the_lake_ends():
    plan = planned(boundary({0: (0, 4), 1: (0, 6)}), view({0: (0, 9), 1: (2, 6)}))

    assert plan.splits == (log(0, 4, 9),)


def test_the_first_round_of_a_bucket_with_keys_takes_its_rows_at_the_end_of_the_log():
    plan = planned(boundary({0: (0, 4)}), view({0: (2, 4), 1: (5, 9), 2: (0, 0)}, is_keyed=True))

    assert plan.splits == (StateAt.of(Place(None, 1), bucket(1), 9),)


def test_a_round_takes_no_more_of_a_bucket_than_it_may():
    plan = planned(None, view({0: (0, 10), 1: (0, 2)}), limits=Limits(rows_max=4))

    assert [split.offsets for split in plan.splits] == [OffsetRange(0, 4), OffsetRange(0, 2)]
    assert plan.rows_left == 6


def test_nothing_new_is_no_round():
    plan = planned(boundary({0: (0, 4)}), view({0: (0, 4), 1: (0, 0)}))

    assert not plan.splits
    assert not plan.needs_claim


def test_a_log_that_begins_after_the_end_of_the_lake_is_a_gap():
    with pytest.raises(LogGapError, match=r"up to offset 4.*begins at 5"):
        planned(boundary({0: (0, 4)}), view({0: (5, 9)}))


def test_a_lake_that_lost_what_the_log_has_not_any_more_is_a_gap():
    with pytest.raises(LogGapError, match="holds nothing of it"):
        planned(None, view({0: (5, 9)}, reported={0: 7}))


def test_a_lake_may_begin_anew_with_what_the_log_holds_if_it_is_told_to():
    limits = Limits(rows_max=1000, begins_anew=True)

    plan = planned(None, view({0: (5, 9)}, reported={0: 7}), limits=limits)

    assert plan.splits == (log(0, 5, 9),)
    assert plan.replaces_report


def test_a_lake_that_lost_what_the_log_still_has_gets_it_again():
    plan = planned(boundary({0: (0, 2)}), view({0: (0, 9)}, reported={0: 7}))

    assert plan.splits == (log(0, 2, 9),)
    assert plan.replaces_report


def test_a_lake_that_is_ahead_of_the_log_is_refused():
    with pytest.raises(LakeAheadError, match=r"up to offset 8.*ends at 5"):
        planned(boundary({0: (0, 8)}), view({0: (0, 5)}))


@cases("other", [TableIdentity("storage", 8), TableIdentity("other", 7)])
def test_a_lake_table_of_another_table_is_refused_with_a_remedy(other):
    held = boundary({0: (0, 4)}, table=other)

    with pytest.raises(LakeTableDiffersError, match="headwater lake drop"):
        planned(held, view({0: (0, 9)}))


def test_a_turn_that_is_over_is_fenced():
    with pytest.raises(TieringFencedError):
        planned(boundary(epoch=TieringEpoch(1, 6)), view({0: (0, 9)}))


@cases(
    ("held", "claims"),
    [
        (None, True),
        (boundary(epoch=TieringEpoch(1, 5)), False),
        (boundary(epoch=TieringEpoch(1, 4)), False),
        (boundary(epoch=TieringEpoch(1, 3)), True),
        (boundary(epoch=TieringEpoch(0, 4)), True),
    ],
)
def test_a_claim_is_needed_if_others_had_a_turn_that_the_lake_knows_nothing_of(held, claims):
    assert planned(held, view({0: (0, 9)})).needs_claim == claims


@cases(("unsettled", "claims"), [(0, False), (1, False), (2, True), (3, True), (None, True)])
def test_turns_that_ended_by_the_word_of_their_tierers_need_no_claim(unsettled, claims):
    held = boundary(epoch=TieringEpoch(1, 2))

    plan = planned(held, replace(view({0: (0, 9)}), unsettled=unsettled))

    assert plan.needs_claim == claims


def test_the_very_first_turn_needs_no_claim():
    seen = view({0: (0, 9)})
    for unsettled in (None, 0):
        first = replace(seen, unsettled=unsettled)
        assert not planned(None, first, epoch=TieringEpoch(4, 1)).needs_claim


def test_the_offsets_of_a_dropped_partition_leave_the_boundary():
    held = boundary({bucket(0, 1): (0, 4), bucket(0, 2): (0, 4)}, partitions={1: "a", 2: "b"})

    plan = planned(held, view({bucket(0, 2): (0, 6)}, partitions={2: "b"}))

    assert set(plan.boundary(plan.splits, epoch=EPOCH, round_id="x").ranges) == {bucket(0, 2)}


def test_a_new_partition_with_keys_takes_its_changes_where_the_lake_may_hold_old_rows_of_it():
    held = boundary({bucket(0, 1): (0, 4)}, partitions={1: "a"})
    logs = {bucket(0, 1): (0, 4), bucket(0, 2): (0, 6), bucket(0, 3): (2, 9)}
    seen = view(logs, is_keyed=True, partitions={1: "a", 2: "b", 3: "c"})

    plan = planned(held, seen)

    assert plan.splits == (
        LogRange.of(Place("b", 0), bucket(0, 2), OffsetRange(0, 6)),
        StateAt.of(Place("c", 0), bucket(0, 3), 9),
    )
    assert isinstance(planned(None, seen).splits[0], StateAt)


def test_a_partition_that_a_server_does_not_know_yet_is_not_taken_for_dropped():
    held = boundary({bucket(0, 1): (0, 4), bucket(0, 9): (0, 4)}, partitions={1: "a", 9: "b"})

    plan = planned(held, view({bucket(0, 1): (0, 6)}, partitions={1: "a"}))

    assert plan.kept == held


@cases(
    ("reported", "is_behind"),
    [({0: 4, 1: 3}, True), ({0: 4}, True), ({}, True), ({0: 4, 1: 9}, False)],
)
def test_a_report_is_behind_if_the_lake_holds_more_of_any_bucket(reported, is_behind):
    held = boundary({0: (0, 4), 1: (0, 4), bucket(0, 8): (0, 9)}, partitions={8: "dropped"})
    seen = view({0: (0, 9), 1: (0, 9), 2: (0, 9)}, reported=reported)

    assert is_report_behind(seen, held) == is_behind


@given(
    st.dictionaries(
        st.integers(0, 3), st.tuples(OFFSET, OFFSET, OFFSET, OFFSET).map(sorted), min_size=1
    ),
    st.integers(1, 60),
)
def test_rounds_until_nothing_is_new_hold_every_offset_exactly_once(drawn, rows_max):
    held_ranges = {number: (low, end) for number, (low, _, end, _) in drawn.items()}
    logs = {number: (start, high) for number, (_, start, _, high) in drawn.items()}
    held, told = boundary(held_ranges, epoch=TieringEpoch(1, 4)), []

    while (plan := planned(held, view(logs), limits=Limits(rows_max=rows_max))).splits:
        told += [(each.log_bucket, offset) for each in plan.splits for offset in _all(each.offsets)]
        held = plan.boundary(plan.splits, epoch=EPOCH, round_id="next")

    assert len(told) == len(set(told))
    assert all(held.ranges[bucket(number)].end == high for number, (_, high) in logs.items())
    assert all(held.ranges[bucket(n)].start == low for n, (low, _) in held_ranges.items())
    expected = {(bucket(n), o) for n, (_, e) in held_ranges.items() for o in range(e, logs[n][1])}
    assert set(told) == expected


def _all(offsets):
    return range(offsets.start, offsets.end)
