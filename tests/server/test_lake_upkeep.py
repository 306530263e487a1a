"""What a server keeps until the lake holds it, and what it clears away."""

import os
from pathlib import Path

import pytest

import headwater
from headwater.log.retention import LogSettings
from headwater.model.table import TableInfo
from headwater.server.tablets import StorageSettings
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import TABLE, table_json
from tests.server.support import (
    SMALL_SEGMENTS,
    FakeClock,
    connected,
    create_table,
    drop_table,
    earliest,
    fill,
    partitioned_json,
    partitions,
    running,
    until,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TIERED = {"table.datalake.enabled": "true", "table.log.ttl": "1h"}
BY_DAY = {
    "table.datalake.enabled": "true",
    "table.auto-partition.enabled": "true",
    "table.auto-partition.time-unit": "DAY",
    "table.auto-partition.time-zone": "UTC",
    "table.auto-partition.num-retention": "1",
}
# The reports here are of lakes that are not there.
TRUSTED = {"lake_trusted_tierers": "*"}


@pytest.fixture
def clock():
    return FakeClock()


async def tiered(connection, table_id, end: int, *, snapshot_id: int = 1, **bucket) -> Path:
    """Tell that the lake holds a bucket up to an offset; return where that was written."""
    offset = pb.BucketOffset(bucket_id=0, log_end_offset=end, **bucket)
    offsets = pb.TableOffsets(table_id=table_id, table_path=TABLE, bucket_offsets=[offset])
    answer = await connection.call(
        pb.PrepareLakeTableSnapshotRequest(bucket_offsets=[offsets]),
        pb.PrepareLakeTableSnapshotResponse,
    )
    path = answer.prepare_lake_table_resp[0].lake_table_offsets_path
    told = pb.LakeTableSnapshotMetadata(
        table_id=table_id, snapshot_id=snapshot_id, tiered_bucket_offsets_file_path=path
    )
    request = pb.CommitLakeTableSnapshotRequest(lake_table_snapshot_metadata=[told])
    committed = await connection.call(request, pb.CommitLakeTableSnapshotResponse)
    assert not committed.table_resp[0].error_code
    return Path(path.removeprefix("file://"))


async def set_option(connection, key: str, value: str) -> None:
    change = pb.AlterConfig(config_key=key, config_value=value, op_type=0)
    request = pb.AlterTableRequest(
        table_path=TABLE, ignore_if_not_exists=False, config_changes=[change]
    )
    await connection.call(request, pb.AlterTableResponse)


async def test_rows_stay_until_the_lake_holds_them_however_old_they_are(tmp_path, clock):
    given = {"clock": clock, "storage": StorageSettings(SMALL_SEGMENTS), **TRUSTED}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**TIERED))
        await fill(connection, table_id, batches=20)
        clock.milliseconds += 2 * HOUR_MS

        await server.upkeep.expire_rows()
        never_tiered = await earliest(connection, table_id)
        await tiered(connection, table_id, 100)
        await server.upkeep.expire_rows()
        half_tiered = await earliest(connection, table_id)
        await tiered(connection, table_id, 200, snapshot_id=2)
        await server.upkeep.expire_rows()

        assert never_tiered == 0
        assert 50 < half_tiered <= 100
        assert await earliest(connection, table_id) == 200


async def test_rows_over_the_size_stay_until_the_lake_holds_them(tmp_path, clock):
    storage = StorageSettings(LogSettings(segment_bytes_max=1_000))
    by_size = {"table.datalake.enabled": "true", "table.log.retention.bytes": "2000b"}
    async with (
        running(tmp_path, storage=storage, **TRUSTED) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection, table_json(**by_size))
        await fill(connection, table_id, batches=20)

        await server.upkeep.expire_rows()
        before = await earliest(connection, table_id)
        await tiered(connection, table_id, 200)
        await server.upkeep.expire_rows()

        assert before == 0
        assert await earliest(connection, table_id) > 100


async def test_rows_go_as_usual_once_tiering_is_turned_off(tmp_path, clock):
    async with running(tmp_path, clock=clock, **TRUSTED) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**TIERED))
        await fill(connection, table_id, batches=2)
        clock.milliseconds += 2 * HOUR_MS
        await server.upkeep.expire_rows()
        kept = await earliest(connection, table_id)

        await set_option(connection, "table.datalake.enabled", "false")
        await server.upkeep.expire_rows()

        assert (kept, await earliest(connection, table_id)) == (0, 20)


async def with_rows(server, connection, day: str) -> TableInfo:
    """Make a table with automatic partitions and write to one of them."""
    await create_table(connection, partitioned_json(**BY_DAY))
    (table,) = server._services.catalog.tables.all()
    await until(lambda: len(server._services.catalog.partitions.list(table.path)) == 2)
    async with await headwater.aio.connect(f"127.0.0.1:{server.port}") as client:
        orders = await client.table(table.path)
        await orders.append([{"writer": 0, "number": n, "day": day} for n in range(10)])
    return table


async def test_an_expired_partition_waits_until_the_lake_holds_all_of_it(tmp_path, clock, caplog):
    async with running(tmp_path, clock=clock, **TRUSTED) as server, connected(server) as connection:
        table = await with_rows(server, connection, "20231114")
        first = (await partitions(connection))["20231114"]
        clock.milliseconds += 3 * DAY_MS

        await server.upkeep.follow_partitions_of(table)
        waiting = await partitions(connection)
        await tiered(connection, table.table_id, 10, partition_id=first)
        await server.upkeep.follow_partitions_of(table)

        assert "20231114" in waiting
        assert "20231115" not in waiting, "a partition without rows has nothing to wait for"
        assert "20231114" not in await partitions(connection)
    said = [each for each in caplog.records if "waits to be tiered" in each.message]
    assert said[0].fields["untiered_rows"] == 10


async def test_an_expired_partition_that_cannot_be_opened_is_not_dropped(tmp_path, clock, caplog):
    async with running(tmp_path, clock=clock, **TRUSTED) as server, connected(server) as connection:
        table = await with_rows(server, connection, "20231114")
    segment = next((tmp_path / "log" / str(table.table_id)).glob("p*/0/*.log"))
    segment.rename(tmp_path / "aside")
    segment.mkdir()
    clock.milliseconds += 3 * DAY_MS

    given = {"clock": clock, "trust_clock": True, **TRUSTED}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        await server.upkeep.follow_partitions_of(table)

        assert "20231114" in await partitions(connection)
        assert "20231115" not in await partitions(connection)
    said = [each for each in caplog.records if each.message.startswith("expired partition waits")]
    assert {each.fields["unopenable_buckets"] for each in said} == {1}
    assert segment.exists()


async def test_files_that_nothing_refers_to_go_after_a_day(tmp_path, clock):
    async with running(tmp_path, clock=clock, **TRUSTED) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**TIERED))
        old = await tiered(connection, table_id, 0)
        used = await tiered(connection, table_id, 0, snapshot_id=2)
        young = await tiered(connection, table_id, 0, snapshot_id=2)
        for file in (old, used):
            os.utime(file, (0, 0))
        clock.milliseconds = int(young.stat().st_mtime * 1000)

        await server.upkeep.clear_lake_files()

        assert [file.exists() for file in (old, used, young)] == [False, True, True]
        await drop_table(connection)
        clock.milliseconds += 2 * DAY_MS
        await server.upkeep.clear_lake_files()
        assert not used.parent.exists()
