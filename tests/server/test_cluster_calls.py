"""What newer clients ask of a cluster: served, or answered as the protocol says there is none."""

import json

import pytest

from headwater.config.server import ServerSettings
from headwater.server.catalog.producers import PRODUCERS_MAX, TTL_MS
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import table_json
from tests.server.support import (
    FakeClock,
    connected,
    create_table,
    fill,
    partitioned_json,
    running,
)

OFFSETS = [
    pb.ProducerTableOffsets(
        table_id=7,
        bucket_offsets=[
            pb.ProducerBucketOffset(bucket_id=0, log_end_offset=12),
            pb.ProducerBucketOffset(partition_id=3, bucket_id=1, log_end_offset=0),
        ],
    )
]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def connection(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as opened:
        yield opened


async def register(connection, producer: str, offsets=OFFSETS, **given) -> int:
    request = pb.RegisterProducerOffsetsRequest(
        producer_id=producer, table_offsets=offsets, **given
    )
    answer = await connection.call(request, pb.RegisterProducerOffsetsResponse)
    return answer.result


async def offsets_of(connection, producer: str) -> pb.GetProducerOffsetsResponse:
    request = pb.GetProducerOffsetsRequest(producer_id=producer)
    return await connection.call(request, pb.GetProducerOffsetsResponse)


async def test_offsets_of_a_producer_are_registered_once_found_and_deleted(connection, clock):
    assert await register(connection, "job-1") == 0
    assert await register(connection, "job-1", offsets=[]) == 1

    found = await offsets_of(connection, "job-1")
    assert (found.producer_id, list(found.table_offsets)) == ("job-1", OFFSETS)
    assert found.expiration_time == clock.milliseconds + TTL_MS
    await connection.call(
        pb.DeleteProducerOffsetsRequest(producer_id="job-1"), pb.DeleteProducerOffsetsResponse
    )
    assert not (await offsets_of(connection, "job-1")).HasField("producer_id")
    assert await register(connection, "job-1") == 0


async def test_offsets_of_a_producer_expire(connection, clock):
    await register(connection, "job-1", ttl_ms=1_000)
    clock.milliseconds += 999
    kept = await offsets_of(connection, "job-1")
    clock.milliseconds += 1

    assert kept.HasField("producer_id")
    assert not (await offsets_of(connection, "job-1")).HasField("producer_id")
    assert await register(connection, "job-1") == 0


async def test_offsets_of_a_producer_outlive_a_restart(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await register(connection, "job-1")

    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        assert list((await offsets_of(connection, "job-1")).table_offsets) == OFFSETS


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 201])
async def test_a_producer_without_a_proper_name_is_refused(connection, name):
    with pytest.raises(Exception, match="The name of a producer"):
        await register(connection, name)
    with pytest.raises(Exception, match="cannot be kept for 0 ms"):
        await register(connection, "job", ttl_ms=0)


async def test_there_are_not_more_producers_than_the_limit(connection, clock):
    for number in range(PRODUCERS_MAX):
        await register(connection, f"job-{number}", offsets=[], ttl_ms=1_000)

    with pytest.raises(Exception, match="which is the limit"):
        await register(connection, "one-more")

    clock.milliseconds += 1_000
    assert await register(connection, "one-more") == 0


async def test_settings_are_told_under_the_names_of_fluss_and_not_changed(connection):
    answer = await connection.call(
        pb.DescribeClusterConfigsRequest(), pb.DescribeClusterConfigsResponse
    )

    told = {each.config_key: each.config_value for each in answer.configs}
    assert told["max.bucket.num"] == str(ServerSettings().bucket_count_max)
    assert told["kv.snapshot.interval"] == "600000ms"
    assert {each.config_source for each in answer.configs} == {"INITIAL_SERVER_CONFIG"}
    change = pb.AlterConfig(config_key="max.bucket.num", config_value="1", op_type=0)
    with pytest.raises(Exception, match=r"cannot be changed: 'max\.bucket\.num'"):
        await connection.call(
            pb.AlterClusterConfigsRequest(alter_configs=[change]), pb.AlterClusterConfigsResponse
        )


async def test_the_health_is_green_while_every_bucket_can_be_written(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection)
        await fill(connection, table_id, batches=2)
        health = await connection.call(pb.GetClusterHealthRequest(), pb.GetClusterHealthResponse)

        assert (health.num_replicas, health.in_sync_replicas, health.status) == (1, 1, 0)
        server._services.tablets.unopenable[next(iter(server._services.tablets._open))] = "lost"
        health = await connection.call(pb.GetClusterHealthRequest(), pb.GetClusterHealthResponse)
        assert (health.num_replicas, health.active_leader_replicas, health.status) == (1, 0, 2)
        server._services.tablets.unopenable.clear()


async def test_no_snapshot_of_a_state_is_listed_leased_or_read(connection):
    table_id = await create_table(connection)
    wanted = pb.KvSnapshotLeaseForTable(
        table_id=table_id,
        bucket_snapshots=[pb.KvSnapshotLeaseForBucket(bucket_id=0, snapshot_id=5)],
    )
    lease = pb.AcquireKvSnapshotLeaseRequest(
        lease_id="l", lease_duration_ms=1_000, snapshots_to_lease=[wanted]
    )

    answer = await connection.call(lease, pb.AcquireKvSnapshotLeaseResponse)

    assert list(answer.unavailable_snapshots) == [wanted]
    drop = pb.DropKvSnapshotLeaseRequest(lease_id="l")
    await connection.call(drop, pb.DropKvSnapshotLeaseResponse)
    release = pb.ReleaseKvSnapshotLeaseRequest(lease_id="l")
    await connection.call(release, pb.ReleaseKvSnapshotLeaseResponse)
    data = pb.GetKvSnapshotMetadataRequest(table_id=table_id, bucket_id=0, snapshot_id=5)
    with pytest.raises(Exception, match="no snapshot 5 that clients can read"):
        await connection.call(data, pb.GetKvSnapshotMetadataResponse)
    listed = pb.ListKvSnapshotsRequest(table_id=table_id)
    with pytest.raises(Exception, match="has no primary key"):
        await connection.call(listed, pb.ListKvSnapshotsResponse)


async def test_no_log_is_in_remote_storage(connection):
    table_id = await create_table(connection)

    request = pb.ListRemoteLogManifestsRequest(table_id=table_id)
    answer = await connection.call(request, pb.ListRemoteLogManifestsResponse)

    assert not answer.manifests


async def test_a_partition_that_a_list_needs_is_checked(connection):
    table_id = await create_table(connection, partitioned_json())
    of_none = pb.ListRemoteLogManifestsRequest(table_id=table_id)
    of_missing = pb.ListRemoteLogManifestsRequest(table_id=table_id, partition_id=99)

    with pytest.raises(Exception, match="no partition is named"):
        await connection.call(of_none, pb.ListRemoteLogManifestsResponse)
    with pytest.raises(Exception, match="99"):
        await connection.call(of_missing, pb.ListRemoteLogManifestsResponse)


async def test_a_table_by_key_lists_no_snapshots(connection):
    content = json.loads(table_json())
    content["schema"]["primary_key"] = [content["schema"]["columns"][0]["name"]]
    table_id = await create_table(connection, json.dumps(content).encode())

    request = pb.ListKvSnapshotsRequest(table_id=table_id)
    answer = await connection.call(request, pb.ListKvSnapshotsResponse)

    assert (answer.table_id, list(answer.active_snapshots)) == (table_id, [])
