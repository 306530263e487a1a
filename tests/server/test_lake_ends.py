"""Tierers that say more than the log ever held: nothing is believed, and nothing is deleted."""

import json
import shutil
from pathlib import Path

import pytest

import headwater
from headwater.errors import RequestError
from headwater.model.boundary import LakeBucket
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import TABLE, batch_of, produce, table_json
from tests.server.support import (
    FakeClock,
    HeldSyncs,
    append,
    connected,
    create_table,
    disk_with,
    running,
)

LAKE = {"table.datalake.enabled": "true"}
FIRST, SECOND = LakeBucket(None, 0), LakeBucket(None, 1)
DAY_MS = 86_400_000


@pytest.fixture
def storage(tmp_path):
    with headwater.open(tmp_path / "data") as opened:
        yield opened


def made(storage, rows=3, **shape):
    """Make a table whose first bucket holds some rows."""
    table = storage.create_table("t", {"id": "BIGINT"}, options=LAKE, **shape)
    table.append([{"id": number} for number in range(rows)])
    return table


def rewritten(prepared, **content):
    file = Path(prepared.removeprefix("file://"))
    file.write_text(json.dumps(json.loads(file.read_text()) | content))
    return prepared


@pytest.mark.parametrize("end", [4, 1 << 60])
@pytest.mark.parametrize("replaces", [False, True])
def test_an_end_that_the_log_has_not_reached_is_refused(storage, end, replaces):
    made(storage)

    with pytest.raises(RequestError, match=rf"up to offset {end}, but its log ends at 3"):
        storage.lake.prepare("t", 1, {FIRST: end}, ignore_previous=replaces)

    assert storage.lake.snapshot("t") is None


@pytest.mark.parametrize("end", [-1, -(1 << 60)])
def test_an_end_below_zero_is_refused(storage, end):
    made(storage)

    with pytest.raises(RequestError, match="cannot end at offset"):
        storage.lake.prepare("t", 1, {FIRST: end})


def test_the_last_row_can_be_tiered(storage):
    made(storage)

    storage.lake.commit(1, 5, storage.lake.prepare("t", 1, {FIRST: 3}))

    assert storage.lake.snapshot("t").ends == {FIRST: 3}


def test_a_file_that_says_more_than_the_log_holds_is_not_committed(storage):
    made(storage)
    bad = rewritten(storage.lake.prepare("t", 1, {FIRST: 2}), bucket_offsets=[4])

    with pytest.raises(RequestError, match="its log ends at 3"):
        storage.lake.commit(1, 5, bad)

    assert storage.lake.snapshot("t") is None


async def test_what_can_be_read_is_checked_as_well_as_what_was_tiered(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(buckets=1, **LAKE))
        await append(connection, table_id, rows=10)
        good = (await prepare(connection, table_id, 10)).lake_table_offsets_path
        bad = (await prepare(connection, table_id, 10)).lake_table_offsets_path
        told = pb.LakeTableSnapshotMetadata(
            table_id=table_id,
            snapshot_id=5,
            tiered_bucket_offsets_file_path=good,
            readable_bucket_offsets_file_path=rewritten(bad, bucket_offsets=[11]),
        )

        request = pb.CommitLakeTableSnapshotRequest(lake_table_snapshot_metadata=[told])
        answer = await connection.call(request, pb.CommitLakeTableSnapshotResponse)

        assert "its log ends at 10" in answer.table_resp[0].error_message


def test_a_bucket_that_nobody_wrote_to_can_be_told_of_as_empty_only(storage, tmp_path):
    made(storage, rows=0, buckets=2)

    storage.lake.commit(1, 5, storage.lake.prepare("t", 1, {FIRST: 0, SECOND: 0}))
    with pytest.raises(RequestError, match=r"Bucket 1 of fluss\.t .* its log ends at 0"):
        storage.lake.prepare("t", 1, {SECOND: 1})

    assert storage.lake.snapshot("t").ends == {FIRST: 0, SECOND: 0}
    assert not (tmp_path / "data" / "log" / "1" / "0").exists()


def test_a_bucket_that_is_not_open_yet_is_opened_to_look(tmp_path):
    with headwater.open(tmp_path) as storage:
        made(storage)

    with headwater.open(tmp_path) as storage:
        with pytest.raises(RequestError, match="its log ends at 3"):
            storage.lake.prepare("t", 1, {FIRST: 4})

        assert storage.lake.prepare("t", 1, {FIRST: 3})


def test_a_log_that_was_lost_does_not_spoil_the_reports_of_others(tmp_path):
    with headwater.open(tmp_path) as storage:
        made(storage)
        storage.lake.commit(1, 5, storage.lake.prepare("t", 1, {FIRST: 3}))
    shutil.rmtree(tmp_path / "log" / "1" / "0")

    with headwater.open(tmp_path) as storage:
        same = storage.lake.prepare("t", 1, {FIRST: 3})
        storage.lake.commit(1, 6, same)
        with pytest.raises(RequestError, match="its log ends at 0"):
            storage.lake.prepare("t", 1, {FIRST: 2})

        assert storage.lake.snapshot("t").snapshot_id == 6


def test_a_partition_that_is_dropped_between_preparing_and_committing_is_left_out(storage):
    table = storage.create_table(
        "t", {"id": "BIGINT", "day": "STRING"}, partition_by="day", options=LAKE
    )
    table.append([{"id": 1, "day": "a"}, {"id": 2, "day": "b"}])
    ends = {LakeBucket(number, 0): 1 for number in (1, 2)}
    prepared = storage.lake.prepare("t", 1, ends)

    table.drop_partition({"day": "a"})
    storage.lake.commit(1, 5, prepared)

    assert storage.lake.snapshot("t").snapshot_id == 5


async def test_rows_that_are_not_durable_yet_cannot_have_been_tiered(tmp_path):
    syncs = HeldSyncs("1/0")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection, table_json(buckets=1, **LAKE))
        await append(connection, table_id, rows=10)
        syncs.hold()
        records = batch_of([(0, number) for number in range(10)])
        await connection.call(produce(table_id, 0, records, acks=1), pb.ProduceLogResponse)
        early = await prepare(connection, table_id, 20)
        syncs.release()

        assert "its log ends at 10" in early.error_message


async def prepare(connection, table_id, end):
    offsets = [pb.BucketOffset(bucket_id=0, log_end_offset=end)]
    request = pb.PrepareLakeTableSnapshotRequest(
        bucket_offsets=[
            pb.TableOffsets(table_id=table_id, table_path=TABLE, bucket_offsets=offsets)
        ]
    )
    answer = await connection.call(request, pb.PrepareLakeTableSnapshotResponse)
    return answer.prepare_lake_table_resp[0]


async def test_retention_deletes_nothing_on_a_word_that_was_refused(tmp_path):
    clock = FakeClock()
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        content = table_json(buckets=1, **LAKE, **{"table.log.ttl": "1 d"})
        table_id = await create_table(connection, content)
        await append(connection, table_id, rows=10)
        clock.milliseconds += 2 * DAY_MS

        refused = await prepare(connection, table_id, 1_000)
        await server.upkeep.expire_rows()

        assert "its log ends at 10" in refused.error_message
        assert server.tablets.all_open()[0][1].start_offset == 0
