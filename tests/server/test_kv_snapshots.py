"""Readers that ask for snapshots of rows by key are sent to the log, as long as it is whole."""

import pytest

from headwater import aio, errors
from headwater.model.boundary import LakeBucket
from headwater.server.tablets import StorageSettings
from headwater.wire import fluss_pb2 as pb
from tests.server.support import SMALL_SEGMENTS, connected, running

COLUMNS = {"id": "BIGINT", "day": "STRING"}
ROWS = 100
BY_SIZE = {"table.log.retention.bytes": "2000b"}


async def asked(server, table: str, partition: str | None = None):
    path = pb.TablePath(database_name="fluss", table_name=table)
    request = pb.GetLatestKvSnapshotsRequest(table_path=path, partition_name=partition)
    async with connected(server) as connection:
        return await connection.call(request, pb.GetLatestKvSnapshotsResponse)


async def test_each_bucket_is_named_and_has_none(tmp_path):
    async with (
        running(tmp_path) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        table = await client.create_table("t", COLUMNS, primary_key="id", buckets=3)
        await table.upsert([{"id": number, "day": "mo"} for number in range(9)])

        answer = await asked(server, "t")

        assert answer.table_id == table.info.table_id
        assert not answer.HasField("partition_id")
        assert [bucket.bucket_id for bucket in answer.latest_snapshots] == [0, 1, 2]
        assert not any(bucket.HasField("snapshot_id") for bucket in answer.latest_snapshots)


async def test_a_partition_is_asked_for_by_its_name(tmp_path):
    async with (
        running(tmp_path) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        table = await client.create_table(
            "t", COLUMNS, primary_key=["id", "day"], partition_by="day"
        )
        await table.upsert([{"id": 1, "day": "mo"}])

        assert (await asked(server, "t", "mo")).partition_id > 0
        with pytest.raises(errors.PartitionMissingError):
            await asked(server, "t", "tu")


async def test_a_log_table_has_no_snapshots(tmp_path):
    async with (
        running(tmp_path) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        await client.create_table("t", COLUMNS)

        with pytest.raises(errors.NotPrimaryKeyTableError):
            await asked(server, "t")


async def write_much(server, table) -> None:
    for number in range(ROWS):
        await table.upsert([{"id": number, "day": "mo"}])
        if number % 20 == 0:
            await server.upkeep.save_states()


async def test_readers_are_told_when_the_beginning_of_the_log_is_gone(tmp_path):
    async with (
        running(
            tmp_path, storage=StorageSettings(SMALL_SEGMENTS), lake_trusted_tierers="*"
        ) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        table = await client.create_table("t", COLUMNS, primary_key="id", options=BY_SIZE)
        await write_much(server, table)
        await server.upkeep.expire_rows()

        with pytest.raises(errors.SnapshotMissingError, match="begins at offset"):
            await asked(server, "t")


async def test_a_log_whose_beginning_is_in_the_lake_has_a_snapshot_that_nobody_can_read(tmp_path):
    async with (
        running(
            tmp_path, storage=StorageSettings(SMALL_SEGMENTS), lake_trusted_tierers="*"
        ) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        options = {**BY_SIZE, "table.datalake.enabled": True}
        table = await client.create_table("t", COLUMNS, primary_key="id", options=options)
        await write_much(server, table)
        ends = {LakeBucket(None, 0): ROWS}
        path = await client.lake.prepare(table.path, table.info.table_id, ends)
        await client.lake.commit(table.info.table_id, 1, path, ends=ends)
        await server.upkeep.expire_rows()

        (found,) = (await asked(server, "t")).latest_snapshots

        assert found.HasField("snapshot_id")
        assert 0 < found.log_offset < ROWS
