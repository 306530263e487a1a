"""A boundary comes back from the properties of a snapshot as it went in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptFileError
from headwater.model.boundary import (
    Boundary,
    LakeBucket,
    TableIdentity,
    TieringEpoch,
    boundary_from_json,
    extended,
)
from headwater.model.bucket import OffsetRange
from tests.cases import cases

OFFSETS = st.integers(0, 2**62)
RANGES = st.tuples(OFFSETS, OFFSETS).map(lambda pair: OffsetRange(min(pair), max(pair)))
BUCKETS = st.builds(LakeBucket, st.none() | st.integers(0, 9), st.integers(0, 40))
IDENTITY = TableIdentity("storage", 7)


def _boundary(ranges: dict[LakeBucket, OffsetRange]) -> Boundary:
    partitions = {each.partition_id for each in ranges} - {None}
    return Boundary(
        table=IDENTITY,
        epoch=TieringEpoch(1, 5),
        round_id="r1",
        ranges=ranges,
        partitions={each: f"day{each}" for each in partitions if each is not None},
    )


@given(st.dictionaries(BUCKETS, RANGES, max_size=12))
def test_a_boundary_comes_back_as_it_was(ranges: dict[LakeBucket, OffsetRange]) -> None:
    boundary = _boundary(ranges)

    assert boundary_from_json(boundary.to_json()) == boundary


@cases(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version":2}',
        '{"version":1,"storage":"s","table_id":1,"epoch":[1],"round":"r"}',
        '{"version":1,"storage":"s","table_id":1,"epoch":[1,1],"round":"r","buckets":[[5,4]]}',
        '{"version":1,"storage":"s","table_id":1,"epoch":[1,1],"round":"r","buckets":[7]}',
    ],
)
def test_a_boundary_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(CorruptFileError):
        boundary_from_json(text)


def test_a_round_extends_the_ranges_that_are_held() -> None:
    first, second = LakeBucket(None, 0), LakeBucket(None, 1)
    held = _boundary({first: OffsetRange(3, 10)})

    after = extended(
        held,
        {first: OffsetRange(10, 12), second: OffsetRange(0, 4)},
        epoch=TieringEpoch(1, 6),
        round_id="r2",
        partitions={},
    )

    assert after.ranges == {first: OffsetRange(3, 12), second: OffsetRange(0, 4)}
    assert (after.epoch, after.round_id) == (TieringEpoch(1, 6), "r2")
    assert after.end(first) == 12
    assert after.end(LakeBucket(None, 2)) is None
