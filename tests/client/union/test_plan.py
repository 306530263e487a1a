"""Which splits give the rows of a view."""

import pickle

import pytest

from headwater.errors import (
    LakeAheadError,
    LakeTableDiffersError,
    LogGapError,
    NotPartitionedError,
    PartitionMissingError,
)
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.read.plan import ReadSelection, plan_read
from headwater.read.split import Tier
from tests.cases import cases
from tests.client.union.values import file, split, view

ALL = ReadSelection()


def read(seen, lake=(), **selection):
    return plan_read(seen, lake, ReadSelection(**selection))


def tiers(plan):
    return [(each.tier.value, each.partition, each.bucket, each.log) for each in plan.splits]


def test_without_a_lake_everything_is_in_the_log():
    plan = read(view({0: (0, 5), 1: (2, 9), 2: (4, 4)}))

    assert tiers(plan) == [
        ("LOG_ONLY", None, 0, OffsetRange(0, 5)),
        ("LOG_ONLY", None, 1, OffsetRange(2, 9)),
    ]


def test_a_log_goes_on_where_the_lake_ends():
    seen = view({0: (0, 9), 1: (3, 7)}, {0: (0, 4), 1: (0, 7)})

    plan = read(seen, [split(0), split(1)])

    assert tiers(plan) == [
        ("LAKE_ONLY", None, 0, None),
        ("LOG_ONLY", None, 0, OffsetRange(4, 9)),
        ("LAKE_ONLY", None, 1, None),
    ]


def test_lake_splits_of_a_log_table_stay_as_the_format_cut_them():
    pieces = [split(files=[file("/a")]), split(files=[file("/b")])]

    plan = read(view({0: (0, 9), 1: (0, 2)}, {0: (0, 9), 1: (0, 2)}), pieces)

    assert [each.lake for each in plan.splits] == pieces
    assert {each.bucket for each in plan.splits} == {-1}


def test_a_long_log_is_cut():
    plan = read(view({0: (0, 25)}), split_rows=10)

    ranges = [(each.log.start, each.log.end) for each in plan.splits]
    assert ranges == [(0, 10), (10, 20), (20, 25)]


def test_rows_by_key_in_both_are_merged():
    plan = read(view({0: (3, 9)}, {0: (0, 4)}, is_keyed=True), [split(0)])

    assert tiers(plan) == [("HYBRID", None, 0, OffsetRange(4, 9))]
    assert plan.splits[0].lake == split(0)
    assert plan.splits[0].log_bucket == LakeBucket(None, 0)
    assert not plan.splits[0].reads_state


def test_rows_by_key_without_changes_are_those_of_the_lake():
    plan = read(view({0: (9, 9)}, {0: (0, 9)}, is_keyed=True), [split(0)])

    assert tiers(plan) == [("LAKE_ONLY", None, 0, None)]


def test_a_bucket_by_key_whose_rows_were_all_deleted_before_is_in_the_tail_only():
    plan = read(view({0: (0, 9)}, {0: (0, 4)}, is_keyed=True), [])

    assert tiers(plan) == [("LOG_ONLY", None, 0, OffsetRange(4, 9))]
    assert not plan.splits[0].reads_state


def test_a_bucket_by_key_that_the_lake_does_not_know_is_told_by_servers():
    plan = read(view({0: (0, 4), 1: (5, 9), 2: (0, 0)}, {0: (0, 4)}, is_keyed=True), [split(0)])

    assert tiers(plan) == [
        ("LAKE_ONLY", None, 0, None),
        ("LOG_ONLY", None, 1, OffsetRange(0, 9)),
    ]
    assert plan.splits[1].reads_state


def test_a_lake_without_buckets_is_that_of_the_only_bucket():
    plan = read(view({0: (0, 9)}, {0: (0, 4)}, is_keyed=True), [split()])

    assert tiers(plan) == [("HYBRID", None, 0, OffsetRange(4, 9))]


def test_a_gap_between_lake_and_log_is_an_error():
    seen = view({0: (6, 9)}, {0: (0, 4)})

    with pytest.raises(LogGapError, match="2 offsets are in neither"):
        read(seen, [split(0)])


def test_a_log_that_begins_later_is_no_gap_if_the_lake_reaches_the_position():
    plan = read(view({0: (6, 4)}, {0: (0, 4)}), [split(0)])

    assert tiers(plan) == [("LAKE_ONLY", None, 0, None)]


def test_a_position_that_only_the_expired_log_held_is_an_error():
    with pytest.raises(LogGapError, match="now begins at 6"):
        read(view({0: (6, 4)}))


def test_a_lake_that_is_past_the_position_is_refused():
    with pytest.raises(LakeAheadError, match="the position to read is 3"):
        read(view({0: (0, 3)}, {0: (0, 4)}), [split(0)])


def test_a_lake_with_other_buckets_is_refused_where_rows_have_keys():
    with pytest.raises(LakeTableDiffersError, match="bucket 5"):
        read(view({0: (0, 4)}, {0: (0, 4)}, is_keyed=True, bucket_count=2), [split(5)])


# ---- partitions


@cases("is_keyed", [False, True])
def test_partitions_may_be_only_in_the_lake_or_only_in_the_log(is_keyed):
    seen = view(
        {LakeBucket(8, 0): (0, 5)},
        {LakeBucket(3, 0): (0, 7)},
        partitions={8: "b"},
        is_keyed=is_keyed,
    )

    plan = read(seen, [split(0, day="a")])

    assert tiers(plan) == [
        ("LAKE_ONLY", "a", 0, None),
        ("LOG_ONLY", "b", 0, OffsetRange(0, 5)),
    ]


def anew(log, tiered=None, *, is_keyed=True):
    """View a partition that was dropped as 3 and made anew as 8."""
    ranges = {LakeBucket(3, 0): (0, 7)} if tiered is None else {LakeBucket(8, 0): tiered}
    return view({LakeBucket(8, 0): log}, ranges, partitions={8: "a"}, is_keyed=is_keyed)


def test_rows_of_a_partition_made_anew_replace_older_ones_of_the_lake_by_key():
    plan = read(anew((0, 5)), [split(0, day="a")])

    assert tiers(plan) == [("HYBRID", "a", 0, OffsetRange(0, 5))]
    assert plan.splits[0].log_bucket == LakeBucket(8, 0)
    assert not plan.splits[0].reads_state


def test_servers_tell_the_rows_of_a_partition_made_anew_whose_first_changes_expired():
    plan = read(anew((2, 5)), [split(0, day="a")])

    assert tiers(plan) == [("HYBRID", "a", 0, OffsetRange(0, 5))]
    assert plan.splits[0].reads_state


def test_a_partition_made_anew_and_empty_shows_the_rows_of_the_lake():
    plan = read(anew((0, 0)), [split(0, day="a")])

    assert tiers(plan) == [("LAKE_ONLY", "a", 0, None)]


def test_a_partition_made_anew_and_tiered_goes_on_where_the_lake_ends():
    plan = read(anew((3, 5), tiered=(0, 4)), [split(0, day="a")])

    assert tiers(plan) == [("HYBRID", "a", 0, OffsetRange(4, 5))]
    assert not plan.splits[0].reads_state


def test_rows_of_a_log_partition_made_anew_are_added_to_those_of_the_lake():
    plan = read(anew((0, 5), is_keyed=False), [split(0, day="a")])

    assert tiers(plan) == [("LAKE_ONLY", "a", 0, None), ("LOG_ONLY", "a", 0, OffsetRange(0, 5))]


def test_partitions_that_are_not_asked_for_are_left_out():
    seen = view({LakeBucket(8, 0): (0, 5)}, {}, partitions={8: "b"})

    plan = read(seen, [split(0, day="a")], partitions=frozenset({"a"}))

    assert tiers(plan) == [("LAKE_ONLY", "a", 0, None)]
    assert [(each.what, each.row_count) for each in plan.pruned] == [("partition b", 5)]


def test_a_partition_that_is_nowhere_is_an_error():
    with pytest.raises(PartitionMissingError, match="has no partition c"):
        read(view({}, {}, partitions={}), [split(0, day="a")], partitions=frozenset({"c"}))
    with pytest.raises(NotPartitionedError):
        read(view({0: (0, 1)}), partitions=frozenset({"c"}))


# ---- limits


def test_a_limit_takes_as_many_splits_as_hold_the_rows_for_certain():
    pieces = [split(files=[file(f"/{at}")]) for at in range(5)]

    plan = read(view({0: (0, 90)}, {0: (0, 50)}), pieces, limit=11)

    assert [each.lake for each in plan.splits] == pieces[:2]
    assert [(each.what, each.row_count) for each in plan.pruned] == [("4 splits", 70)]


def test_rows_that_may_be_deleted_do_not_count_for_a_limit():
    pieces = [
        split(files=[file("/deletes", deletes=("/d",))]),
        split(files=[file("/merged", stands_alone=False)]),
        split(files=[file("/plain")]),
    ]

    plan = read(view({0: (0, 30)}, {0: (0, 30)}), pieces, limit=12)

    assert len(plan.splits) == 3


def test_a_limit_of_no_rows_reads_nothing():
    assert read(view({0: (0, 30)}), limit=0).splits == ()


def test_splits_travel():
    plan = read(view({0: (3, 9)}, {0: (0, 4)}, is_keyed=True), [split(0)])

    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.splits[0].tier is Tier.HYBRID
