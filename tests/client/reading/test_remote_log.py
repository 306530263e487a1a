"""Parts of logs in a remote store are read from there, as if a server had sent them."""

from pathlib import Path

import pytest

from headwater.errors import CorruptBatchError, LeaderMissingError, RemoteLogError
from headwater.read.log import with_records
from headwater.read.offsets import Place
from headwater.rows.log_batch import build_batch, iterate
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch import BucketAnswer
from tests.client.reading.scripted import ScriptedCluster, serving
from tests.client.reading.test_fetcher import fetcher, ids
from tests.client.reading.test_log_reader import NEW, OLD, stored

BATCHES = {offset: stored(offset, 3) for offset in range(0, 30, 3)}


def segment(start: int, end: int, size: int = 0) -> pb.RemoteLogSegment:
    return pb.RemoteLogSegment(
        remote_log_segment_id=f"segment-{start}",
        remote_log_start_offset=start,
        remote_log_end_offset=end,
        segment_size_in_bytes=size,
    )


def kept(directory: Path, batches: dict[int, bytes], *, end: int) -> pb.RemoteLogSegment:
    """Write a segment as Apache Fluss does, and return what it tells of it."""
    start, data = min(batches), b"".join(batches.values())
    place = directory / f"segment-{start}"
    place.mkdir()
    (place / f"{start:020}.log").write_bytes(data)
    return segment(start, end, len(data))


def pointing(directory: str | Path, *segments: pb.RemoteLogSegment, position: int = 0):
    return pb.RemoteLogFetchInfo(
        remote_log_tablet_dir=str(directory),
        remote_log_segments=segments,
        first_start_pos=position,
    )


def answer(info: pb.RemoteLogFetchInfo) -> BucketAnswer:
    return BucketAnswer(pb.FetchLogBucketResponse(bucket_id=0, remote_log_fetch_info=info))


async def offsets(info, offset: int, *, chunk_bytes: int = 1 << 20) -> list[int]:
    full = await with_records(answer(info), offset=offset, chunk_bytes=chunk_bytes)
    (records,) = full.records
    return [header.base_offset for header, _ in iterate(records)]


@pytest.fixture
def info(tmp_path):
    first = kept(tmp_path, {at: BATCHES[at] for at in range(0, 15, 3)}, end=15)
    second = kept(tmp_path, {at: BATCHES[at] for at in range(15, 30, 3)}, end=30)
    return pointing(tmp_path, first, second)


@pytest.mark.parametrize(
    ("offset", "found"), [(0, [0, 3, 6, 9, 12]), (7, [6, 9, 12]), (14, [12]), (15, [15, 18, 21])]
)
async def test_batches_begin_with_the_one_that_holds_the_offset(info, offset, found):
    assert (await offsets(info, offset))[: len(found)] == found


async def test_a_read_begins_where_the_server_says(info):
    info.first_start_pos = len(BATCHES[0]) + len(BATCHES[3])

    assert await offsets(info, 6) == [6, 9, 12]


@pytest.mark.parametrize("chunk_bytes", [1, 50, len(BATCHES[0]), len(BATCHES[0]) + 1, 10_000])
async def test_chunks_of_any_size_give_whole_batches(info, chunk_bytes):
    found = await offsets(info, 8, chunk_bytes=chunk_bytes)

    assert found[0] == 6
    assert found == list(range(6, found[-1] + 1, 3))


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
async def test_a_local_place_is_understood_whatever_it_is_called(tmp_path, scheme):
    place = tmp_path / "day=1#2?"
    place.mkdir()
    info = pointing(f"{scheme}{place}/", kept(place, BATCHES, end=30))

    assert await offsets(info, 20) == [18, 21, 24, 27]


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda file: file.unlink(), LeaderMissingError),
        (lambda file: file.write_bytes(file.read_bytes()[:70]), CorruptBatchError),
        (lambda file: file.write_bytes(b""), RemoteLogError),
        (lambda file: file.write_bytes(b"\xff" * 300), CorruptBatchError),
    ],
)
async def test_files_that_are_not_what_they_should_be_are_told(tmp_path, damage, fault):
    info = pointing(tmp_path, kept(tmp_path, BATCHES, end=30))
    damage(next(tmp_path.rglob("*.log")))

    with pytest.raises(fault):
        await offsets(info, 0)


async def test_a_batch_that_is_longer_than_the_rest_is_read_whole(tmp_path):
    long = build_batch(b"x" * 100_000, schema_id=1, record_count=4, base_offset=3)
    info = pointing(tmp_path, kept(tmp_path, {0: BATCHES[0], 3: long}, end=7))

    assert await offsets(info, 5, chunk_bytes=1000) == [3]


async def test_an_offset_that_no_segment_holds_is_told(info):
    with pytest.raises(RemoteLogError, match="holds 30"):
        await offsets(info, 30)


async def test_a_reader_goes_from_the_remote_store_on_to_the_server(info):
    cluster = ScriptedCluster({1: OLD, 2: NEW})
    local = serving({30: stored(30, 5)})

    def answered(asked: pb.FetchLogBucketRequest) -> pb.FetchLogBucketResponse:
        if asked.fetch_offset >= 30:
            return local(asked)
        return pb.FetchLogBucketResponse(bucket_id=0, remote_log_fetch_info=info)

    cluster.answers = {0: answered}
    async with fetcher(cluster, cluster.place(0, node=7), columns=["id"]) as reader:
        found = await ids(reader, 35)
        position = reader.followed[Place(None, 0)].position

    assert (len(found), position) == (35, 35)


async def test_a_segment_that_expired_is_asked_for_again(info):
    cluster = ScriptedCluster({1: OLD, 2: NEW})
    gone, asked_at = pointing("/nowhere", segment(0, 30)), []

    def answered(asked: pb.FetchLogBucketRequest) -> pb.FetchLogBucketResponse:
        asked_at.append(asked.fetch_offset)
        told = gone if len(asked_at) == 1 else info
        return pb.FetchLogBucketResponse(bucket_id=0, remote_log_fetch_info=told)

    cluster.answers = {0: answered}
    async with fetcher(cluster, cluster.place(0, node=7), end=30) as reader:
        found = await ids(reader, 30)

    assert len(found) == 30
    assert asked_at[:2] == [0, 0]
