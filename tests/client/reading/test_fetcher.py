"""A fetcher and servers that fail, move and answer oddly."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from headwater.errors import (
    CorruptBatchError,
    DisconnectedError,
    OffsetOutOfRangeError,
    PartitionMissingError,
    RemoteLogError,
)
from headwater.read.fetcher import Fetcher
from headwater.read.filters import RowView
from headwater.read.offsets import Place
from headwater.wire import fluss_pb2 as pb
from tests.client.reading.scripted import ScriptedCluster, failing, serving
from tests.client.reading.test_log_reader import NEW, OLD, TABLE, stored

NOT_LEADER, OUT_OF_RANGE, NO_PARTITION, BAD_PROJECTION = 12, 19, 36, 34
THREE = {0: stored(0, 3), 3: stored(3, 2)}


@pytest.fixture
def cluster():
    return ScriptedCluster({1: OLD, 2: NEW})


@asynccontextmanager
async def fetcher(cluster, *places, forgets_dropped=False, end=None, **choice):
    reader = Fetcher(cluster, RowView.of(TABLE, **choice), forgets_dropped=forgets_dropped)
    for place, bucket in places:
        reader.follow(place, bucket, offset=0, end=end)
    try:
        yield reader
    finally:
        await reader.close()


def damaged(batch: bytes) -> bytes:
    changed = bytearray(batch)
    changed[-20] ^= 1
    return bytes(changed)


async def ids(reader, count) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            for batch in await reader.poll(1.0):
                found += batch.rows["id"].to_pylist()
    return found


async def test_buckets_of_several_servers_are_read_together(cluster):
    cluster.answers = {0: serving(THREE), 1: serving(THREE)}
    places = [cluster.place(0, node=7), cluster.place(1, node=8)]

    async with fetcher(cluster, *places) as reader:
        found = await ids(reader, 10)

        assert sorted(found) == sorted([*range(5)] * 2)
        assert {node for node, _ in cluster.requests} == {7, 8}


async def test_a_server_has_one_request_at_a_time(cluster):
    cluster.answers = {0: serving(THREE), 1: serving(THREE)}
    places = [cluster.place(0, node=7), cluster.place(1, node=7)]

    async with fetcher(cluster, *places) as reader:
        await ids(reader, 10)

    assert [len(table.buckets_req) for _, table in cluster.requests[:2]] == [2, 2]


async def test_a_bucket_that_moved_is_found_again(cluster):
    place, bucket = cluster.place(0, node=7)
    cluster.answers = {0: failing(NOT_LEADER)}

    async with fetcher(cluster, (place, bucket)) as reader:
        while bucket not in cluster.staled:
            assert await reader.poll(0.01) == []
        cluster.leaders[bucket] = 8
        cluster.answers = {0: serving(THREE)}
        found = await ids(reader, 5)

    assert found == [0, 1, 2, 3, 4]
    assert cluster.requests[-1][0] == 8


async def test_a_bucket_that_fails_does_not_hold_up_another(cluster):
    cluster.answers = {0: failing(NOT_LEADER), 1: serving(THREE)}
    places = [cluster.place(0, node=7), cluster.place(1, node=7)]

    async with fetcher(cluster, *places) as reader:
        assert await ids(reader, 5) == [0, 1, 2, 3, 4]


async def test_a_server_that_is_gone_does_not_hold_up_another(cluster):
    cluster.answers = {0: serving(THREE), 1: serving(THREE)}
    cluster.broken = {7: DisconnectedError("gone")}
    places = [cluster.place(0, node=7), cluster.place(1, node=8)]

    async with fetcher(cluster, *places) as reader:
        assert await ids(reader, 5) == [0, 1, 2, 3, 4]
        assert isinstance(reader.last_fault, DisconnectedError)
        cluster.broken = {}

        assert await ids(reader, 5) == [0, 1, 2, 3, 4]


async def test_what_cannot_be_mended_is_raised_and_the_others_go_on(cluster):
    cluster.answers = {
        0: failing(OUT_OF_RANGE, log_start_offset=40, high_watermark=50),
        1: serving(THREE),
    }
    places = [cluster.place(0, node=7), cluster.place(1, node=7)]

    async with fetcher(cluster, *places) as reader:
        with pytest.raises(OffsetOutOfRangeError, match="goes from 40 to 50"):
            await ids(reader, 6)
        reader.drop(Place(None, 0))
        found = {place: each.next_offset for place, each in reader.followed.items()}
        await ids(reader, 1)

    assert found.keys() == {Place(None, 1)}


async def test_rows_in_remote_storage_that_cannot_be_read_are_told(cluster):
    def answer(asked):
        segment = pb.RemoteLogSegment(
            remote_log_segment_id="s",
            remote_log_start_offset=0,
            remote_log_end_offset=9,
            segment_size_in_bytes=1,
        )
        remote = pb.RemoteLogFetchInfo(
            remote_log_tablet_dir="nowhere://x/y", remote_log_segments=[segment]
        )
        return pb.FetchLogBucketResponse(bucket_id=0, remote_log_fetch_info=remote)

    cluster.answers = {0: answer}

    async with fetcher(cluster, cluster.place(0, node=7)) as reader:
        with pytest.raises(RemoteLogError, match=r"nowhere://x/y/s/0+\.log cannot be read"):
            await ids(reader, 1)


async def test_columns_are_cut_here_where_a_server_cannot(cluster):
    def answer(asked):
        projects = cluster.requests[-1][1].projection_pushdown_enabled
        return (failing(BAD_PROJECTION) if projects else serving(THREE))(asked)

    cluster.answers = {0: answer}

    async with fetcher(cluster, cluster.place(0, node=7), columns=["id"]) as reader:
        assert await ids(reader, 5) == [0, 1, 2, 3, 4]

    assert cluster.requests[0][1].projected_fields == [0]
    assert cluster.requests[0][1].filter_schema_id == TABLE.schema_id


async def test_a_dropped_partition_ends_where_that_is_wanted(cluster):
    cluster.answers = {0: failing(NO_PARTITION)}
    place = cluster.place(0, node=7)

    async with fetcher(cluster, place) as reader:
        with pytest.raises(PartitionMissingError):
            await reader.poll(1.0)
    async with fetcher(cluster, place, forgets_dropped=True) as reader:
        while reader.followed:
            assert await reader.poll(0.01) == []


async def test_offsets_that_were_filtered_away_count_as_read(cluster):
    def answer(asked):
        end = 9 if asked.fetch_offset == 0 else None
        return pb.FetchLogBucketResponse(bucket_id=0, filtered_end_offset=end)

    cluster.answers = {0: answer}

    async with fetcher(cluster, cluster.place(0, node=7), end=9) as reader:
        assert await reader.poll(1.0) == []

        assert reader.is_done
        assert [each.position for each in reader.followed.values()] == [9]


async def test_rows_that_were_damaged_on_their_way_are_read_again(cluster):
    answers = iter([serving({0: damaged(THREE[0])})])

    def answer(asked):
        return next(answers, serving(THREE))(asked)

    cluster.answers = {0: answer}

    async with fetcher(cluster, cluster.place(0, node=7)) as reader:
        assert await ids(reader, 5) == [0, 1, 2, 3, 4]


async def test_rows_that_stay_damaged_are_told(cluster):
    cluster.answers = {0: serving({0: damaged(THREE[0])})}

    async with fetcher(cluster, cluster.place(0, node=7)) as reader:
        with pytest.raises(CorruptBatchError):
            await ids(reader, 1)
        cluster.answers = {0: serving(THREE)}

        assert await ids(reader, 5) == [0, 1, 2, 3, 4]


async def test_a_seek_overtakes_what_is_under_way(cluster):
    cluster.answers = {0: serving(THREE)}
    place, bucket = cluster.place(0, node=7)

    async with fetcher(cluster, (place, bucket)) as reader:
        await ids(reader, 3)
        reader.follow(place, bucket, offset=3)

        assert await ids(reader, 2) == [3, 4]


async def test_a_defect_is_not_kept_quiet(cluster):
    def answer(asked):
        raise ZeroDivisionError

    cluster.answers = {0: answer}

    async with fetcher(cluster, cluster.place(0, node=7)) as reader:
        with pytest.raises(ZeroDivisionError):
            await reader.poll(1.0)


async def test_nothing_to_follow_is_waited_for(cluster):
    async with fetcher(cluster) as reader:
        began = cluster.clock.monotonic()

        assert await reader.poll(0.02) == []

        assert cluster.clock.monotonic() - began >= 0.02
