"""Which snapshot serves a position."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RequestError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.read.view import (
    PositionQuery,
    Sought,
    ViewedSnapshot,
    choose_snapshot,
    log_alone_serves,
    origins_of,
    serves,
)
from tests.cases import cases

A, B = LakeBucket(None, 0), LakeBucket(None, 1)


def snapshot(number: int, **ends: int) -> ViewedSnapshot:
    """Make a snapshot that holds buckets from 0 to an end."""
    ranges = {{"a": A, "b": B}[name]: OffsetRange(0, end) for name, end in ends.items()}
    return ViewedSnapshot(format="iceberg", snapshot_id=number, committed_ms=number, ranges=ranges)


def sought(end: int, *, start: int = 0, **traits) -> Sought:
    return Sought(ends={A: end}, starts={A: start}, **traits)


def test_the_newest_snapshot_that_is_not_ahead_is_chosen():
    kept = [snapshot(3, a=30), snapshot(2, a=20), snapshot(1, a=10)]

    assert choose_snapshot(sought(25), kept) == kept[1]
    assert choose_snapshot(sought(30), kept) == kept[0]
    assert choose_snapshot(sought(5), kept) is None


def test_the_preferred_snapshot_comes_first_if_it_is_still_there():
    kept = [snapshot(3, a=30), snapshot(2, a=20)]

    assert choose_snapshot(sought(40, preferred=2), kept) == kept[1]
    assert choose_snapshot(sought(40, preferred=1), kept) == kept[0]


def test_a_snapshot_behind_the_beginning_of_the_log_does_not_serve():
    assert not serves(snapshot(1, a=10), sought(20, start=11))
    assert serves(snapshot(1, a=10), sought(20, start=10))
    assert serves(snapshot(1, a=20), sought(20, start=25))


def test_rows_of_a_dropped_bucket_are_there_only_if_the_lake_holds_them_all():
    gone = Sought(ends={A: 10}, starts={})

    assert serves(snapshot(1, a=10), gone)
    assert not serves(snapshot(1, a=9), gone)
    assert not log_alone_serves(gone, origins={})


def test_an_old_snapshot_does_not_hide_rows_that_a_later_one_took_from_the_log():
    kept = [snapshot(2, a=30, b=30), snapshot(1, a=10)]
    position = Sought(ends={A: 20, B: 20}, starts={A: 5, B: 15})

    assert choose_snapshot(position, kept) is None


def test_a_closed_position_has_no_rows_of_buckets_that_came_later():
    position = sought(20, is_closed=True)

    assert not serves(snapshot(2, a=20, b=5), position)
    assert serves(snapshot(2, a=20, b=5), sought(20))
    assert serves(snapshot(2, a=20, b=5), sought(20, is_closed=True, preferred=2))


def test_the_log_alone_serves_what_it_held_from_the_beginning():
    assert log_alone_serves(sought(20), origins={A: 0})
    assert not log_alone_serves(sought(20, start=5), origins={A: 0})
    assert not log_alone_serves(sought(20, start=5, held_from={A: 4}), origins={})
    assert log_alone_serves(sought(20, start=5, held_from={A: 5}), origins={})
    assert log_alone_serves(sought(0, start=5), origins={A: 0})


def test_by_key_the_log_must_reach_back_to_the_position_only():
    assert log_alone_serves(sought(20, start=20, is_keyed=True), origins={A: 0})
    assert not log_alone_serves(sought(20, start=21, is_keyed=True), origins={A: 0})


OFFSETS = st.integers(0, 12)


@given(
    ends=st.lists(OFFSETS, min_size=1, max_size=3),
    starts=st.lists(OFFSETS, min_size=3, max_size=3),
    kept=st.lists(st.lists(st.none() | OFFSETS, min_size=3, max_size=3), max_size=4),
)
def test_whatever_is_chosen_holds_every_row_once(ends, starts, kept):
    buckets = [LakeBucket(None, number) for number in range(len(ends))]
    position = Sought(
        ends=dict(zip(buckets, ends, strict=True)),
        starts=dict(zip(buckets, starts[: len(ends)], strict=True)),
    )
    snapshots = [
        ViewedSnapshot(
            format="iceberg",
            snapshot_id=number,
            committed_ms=0,
            ranges={
                LakeBucket(None, bucket): OffsetRange(0, end)
                for bucket, end in enumerate(held)
                if end is not None
            },
        )
        for number, held in enumerate(kept)
    ]

    chosen = choose_snapshot(position, snapshots)

    if chosen is not None:
        origins = origins_of(snapshots)
        for bucket, end in position.ends.items():
            first = origins.get(bucket, position.starts[bucket])
            held = chosen.ranges.get(bucket, OffsetRange(first, first))
            from_log = set(range(max(held.end, position.starts[bucket]), end))
            assert held.end <= end or not end or bucket not in chosen.ranges
            assert set(range(first, held.end)) | from_log >= set(range(first, end))


@cases(
    "named",
    [
        {"token": "x", "as_of": 0},
        {"mode": "neither"},
        {"mode": "lake", "as_of": 0},
        {"mode": "log", "snapshot_id": 1},
    ],
)
def test_a_wish_that_says_two_things_is_refused(named):
    with pytest.raises(RequestError):
        PositionQuery(**named)


@cases(
    "given",
    [
        {"as_of": "yesterday"},
        {"as_of": True},
        {"as_of": datetime(2026, 1, 1)},
        {"snapshot_id": "7"},
        {"token": 7},
        {"offsets": [1]},
    ],
)
def test_what_is_no_position_is_refused_with_a_hint(given):
    with pytest.raises(RequestError, match="Give"):
        PositionQuery(**given)
