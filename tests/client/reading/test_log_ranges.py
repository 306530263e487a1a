"""Ranges of logs, read to their ends."""

from collections import Counter
from itertools import pairwise

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from headwater import aio
from headwater.errors import OffsetOutOfRangeError, PartitionMissingError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.read.filters import RowView
from headwater.read.log_ranges import LogRanges, cut_offsets, rounds_of
from headwater.read.offsets import Place
from headwater.read.split import LogRange

COLUMNS = {"id": "BIGINT", "day": "STRING"}


def log(number: int, start: int, end: int, partition=(None, None)) -> LogRange:
    name, number_of_partition = partition
    bucket = LakeBucket(number_of_partition, number)
    return LogRange.of(Place(name, number), bucket, OffsetRange(start, end))


@st.composite
def disjoint(draw):
    """Return ranges of some buckets in any order, no offset of which comes twice."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        edges = sorted(draw(st.lists(st.integers(0, 30), max_size=8)))
        parts = [log(number, start, end) for start, end in pairwise(edges)]
        found += [part for part in parts if draw(st.booleans())]
    return draw(st.permutations(found))


@given(disjoint())
def test_every_offset_is_in_one_round_and_buckets_are_read_in_their_order(ranges):
    rounds = rounds_of(ranges)

    read = [(r.bucket, at) for each in rounds for r in each for at in _all(r)]
    assert Counter(read) == Counter((r.bucket, at) for r in ranges for at in _all(r))
    assert all(len({r.bucket for r in each}) == len(each) > 0 for each in rounds)
    for number in {r.bucket for r in ranges}:
        offsets = [at for bucket, at in read if bucket == number]
        assert offsets == sorted(offsets)


def test_ranges_that_follow_each_other_are_read_as_one():
    assert rounds_of([log(0, 5, 9), log(0, 0, 5), log(1, 0, 3)]) == [[log(0, 0, 9), log(1, 0, 3)]]
    assert rounds_of([log(0, 0, 2), log(0, 4, 6)]) == [[log(0, 0, 2)], [log(0, 4, 6)]]


def test_what_is_before_the_begin_of_a_log_is_gone():
    kept, cut = Place(None, 0), Place(None, 1)

    assert cut_offsets({kept: 4, cut: 4}, {kept: 4, cut: 7}) == {cut: OffsetRange(4, 7)}


@pytest_asyncio.fixture
async def client(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        yield client


async def ids(reader: LogRanges, *ranges: LogRange) -> list[int]:
    return [each async for batch in reader.read(ranges) for each in batch.rows["id"].to_pylist()]


async def test_ranges_of_one_bucket_come_in_the_order_of_the_log(client):
    table = await client.create_table("t", COLUMNS, buckets=1)
    await table.append([{"id": number, "day": "a"} for number in range(10)])

    found = await ids(LogRanges(client.cluster, RowView.of(table.info)), log(0, 6, 9), log(0, 1, 3))

    assert found == [1, 2, 6, 7, 8]


async def test_a_range_behind_the_log_is_an_error_that_nobody_can_pass_over(client):
    table = await client.create_table("t", COLUMNS, buckets=1)
    await table.append([{"id": 0, "day": "a"}])
    reader = LogRanges(client.cluster, RowView.of(table.info), on_cut=pytest.fail)

    with pytest.raises(OffsetOutOfRangeError):
        await ids(reader, log(0, 5, 9))


async def test_a_dropped_partition_is_an_error_or_forgotten(client):
    table = await client.create_table("t", COLUMNS, partition_by="day", buckets=1)
    await table.append([{"id": 1, "day": "a"}, {"id": 2, "day": "b"}])
    known = await client.cluster.partitions(table.info)
    ranges = [log(0, 0, 1, (name, known[name])) for name in ("a", "b")]
    await table.drop_partition({"day": "a"})
    view = RowView.of(table.info)

    with pytest.raises(PartitionMissingError):
        await ids(LogRanges(client.cluster, view), *ranges)
    assert await ids(LogRanges(client.cluster, view, forgets_dropped=True), *ranges) == [2]


def _all(each: LogRange) -> range:
    return range(each.offsets.start, each.offsets.end)
