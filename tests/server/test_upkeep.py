"""What a server does by itself: rows and partitions that had their time, dropped tables."""

import asyncio
import errno

import pytest

from headwater.log.retention import LogSettings
from headwater.runtime.jumps import BELIEVED_AFTER_S
from headwater.server.tablets import StorageSettings
from headwater.store.local import LocalDisk
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import fetch, table_json
from tests.log.support import InterposedDisk
from tests.server.support import (
    SMALL_SEGMENTS,
    FakeClock,
    append,
    connected,
    create_table,
    drop_table,
    earliest,
    error_at,
    fill,
    partitioned_json,
    partitions,
    running,
    until,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
OUT_OF_RANGE = 19
BY_TIME = {"table.log.ttl": "1h"}
BY_SIZE = {"table.log.retention.bytes": "5000b"}
BY_DAY = {
    "table.auto-partition.enabled": "true",
    "table.auto-partition.time-unit": "DAY",
    "table.auto-partition.time-zone": "UTC",
    "table.auto-partition.num-precreate": "2",
    "table.auto-partition.num-retention": "1",
}


@pytest.fixture
def clock():
    return FakeClock()


async def test_rows_older_than_their_time_go_and_the_start_follows(tmp_path, clock):
    given = {"clock": clock, "storage": StorageSettings(SMALL_SEGMENTS)}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**BY_TIME))
        await fill(connection, table_id, batches=20)
        clock.milliseconds += 2 * HOUR_MS
        await fill(connection, table_id, batches=20)

        await server.upkeep.expire_rows()

        start = await earliest(connection, table_id)
        assert 150 < start <= 200, "what was written in the second half is still needed"
        assert (await error_at(connection, table_id, start - 1))[0] == OUT_OF_RANGE
        assert (await fetch(connection, table_id, 0, start)).log_start_offset == start
        assert (await fetch(connection, table_id, 0, -2)).records
        assert (await error_at(connection, table_id, 200))[0] == 0


async def test_rows_within_their_time_stay(tmp_path, clock):
    given = {"clock": clock, "storage": StorageSettings(SMALL_SEGMENTS)}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**BY_TIME))
        await fill(connection, table_id, batches=20)
        clock.milliseconds += HOUR_MS - 1

        await server.upkeep.expire_rows()

        assert await earliest(connection, table_id) == 0


async def test_a_clock_that_is_set_ahead_deletes_nothing_until_it_has_stood_for_long(
    tmp_path, clock
):
    given = {"clock": clock, "storage": StorageSettings(SMALL_SEGMENTS)}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**BY_TIME))
        await fill(connection, table_id, batches=20)
        clock.ahead_ms = 365 * DAY_MS

        await server.upkeep.expire_rows()
        assert await earliest(connection, table_id) == 0
        clock.milliseconds += int(BELIEVED_AFTER_S * 1000)
        await server.upkeep.expire_rows()

        assert await earliest(connection, table_id) == 200


async def test_a_clock_that_is_ahead_at_the_start_deletes_nothing_until_it_has_stood_for_long(
    tmp_path, clock, caplog
):
    given = {"clock": clock, "storage": StorageSettings(SMALL_SEGMENTS)}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**BY_TIME))
        await fill(connection, table_id, batches=20)
    clock.ahead_ms = 365 * DAY_MS

    for _ in range(2):  # a second start does not make it true
        async with running(tmp_path, **given) as server, connected(server) as connection:
            await server.upkeep.expire_rows()
            assert await earliest(connection, table_id) == 0
            await server.upkeep.remember_time()
    assert "clock is far ahead of the last run" in caplog.text
    async with running(tmp_path, **given) as server, connected(server) as connection:
        clock.milliseconds += int(BELIEVED_AFTER_S * 1000)
        await server.upkeep.expire_rows()
        assert await earliest(connection, table_id) == 200


async def test_a_clock_that_an_operator_trusts_is_believed_at_the_start(tmp_path, clock):
    given = {"clock": clock, "storage": StorageSettings(SMALL_SEGMENTS)}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**BY_TIME))
        await fill(connection, table_id, batches=20)
    clock.ahead_ms = 365 * DAY_MS

    async with (
        running(tmp_path, **given, trust_clock=True) as server,
        connected(server) as connection,
    ):
        await server.upkeep.expire_rows()
        assert await earliest(connection, table_id) == 200


async def test_a_quiet_table_becomes_empty_and_keeps_its_offsets(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**BY_TIME))
        await fill(connection, table_id, batches=3)
        clock.milliseconds += 2 * HOUR_MS

        await server.upkeep.expire_rows()

        assert await earliest(connection, table_id) == 30
        assert (await append(connection, table_id)).base_offset == 30


async def test_rows_over_the_size_go_and_stay_gone_after_a_restart(tmp_path, clock):
    given = {"clock": clock, "storage": StorageSettings(SMALL_SEGMENTS)}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**BY_SIZE))
        await fill(connection, table_id, batches=40)

        await server.upkeep.expire_rows()

        start = await earliest(connection, table_id)
        kept = sum(path.stat().st_size for path in tmp_path.glob(f"log/{table_id}/0/*.log"))
        assert 0 < start < 400
        assert 3_000 < kept <= 5_000 + SMALL_SEGMENTS.segment_bytes_max
    async with running(tmp_path, **given) as server, connected(server) as connection:
        assert await earliest(connection, table_id) == start
        assert (await error_at(connection, table_id, 0))[0] == OUT_OF_RANGE


async def test_a_table_without_limits_keeps_everything(tmp_path, clock):
    given = {"clock": clock, "storage": StorageSettings(SMALL_SEGMENTS)}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(**{"table.log.ttl": "0s"}))
        await fill(connection, table_id, batches=20)
        clock.milliseconds += 10_000 * DAY_MS

        await server.upkeep.expire_rows()

        assert await earliest(connection, table_id) == 0


async def test_a_bucket_that_cannot_expire_does_not_stop_the_others(tmp_path, clock):
    def fail_first_bucket(operation, path):
        if operation == "create" and path.startswith("1/0/") and clock.milliseconds > start_ms:
            raise OSError(errno.EIO, "injected", path)

    start_ms = clock.milliseconds
    disk = InterposedDisk(LocalDisk(tmp_path / "log"), before=fail_first_bucket)
    async with running(tmp_path, clock=clock, disk=disk) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(buckets=2, **BY_TIME))
        for bucket in (0, 1):
            await fill(connection, table_id, bucket=bucket, batches=2)
        clock.milliseconds += 2 * HOUR_MS

        await server.upkeep.expire_rows()

        assert await earliest(connection, table_id, 0) == 0
        assert await earliest(connection, table_id, 1) == 20


# ---- partitions


async def test_automatic_partitions_appear_and_expire_with_their_data(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, partitioned_json(**BY_DAY))
        await until(lambda: len(server._services.catalog.partitions.list(_path(server))) == 2)
        first = await partitions(connection)
        await _open(connection, table_id, first["20231114"])
        directory = tmp_path / "log" / str(table_id) / f"p{first['20231114']}"
        existed = directory.exists()
        clock.milliseconds += 2 * DAY_MS

        await server.upkeep.follow_partitions_of(_table(server))

        assert list(first) == ["20231114", "20231115"]
        assert list(await partitions(connection)) == ["20231115", "20231116", "20231117"]
        assert existed
        assert not directory.exists()


async def test_partitions_that_go_make_room_for_those_that_come(tmp_path, clock):
    given = {"clock": clock, "partition_count_max": 2}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        await create_table(connection, partitioned_json(**BY_DAY))
        await until(lambda: len(server._services.catalog.partitions.list(_path(server))) == 2)
        clock.milliseconds += 5 * DAY_MS

        await server.upkeep.follow_partitions_of(_table(server))

        assert list(await partitions(connection)) == ["20231119", "20231120"]


def _table(server):
    return next(iter(server._services.catalog.tables.all()))


def _path(server):
    return _table(server).path


async def _open(connection, table_id, partition_id):
    request = pb.ListOffsetsRequest(
        follower_server_id=-1,
        offset_type=0,
        table_id=table_id,
        bucket_id=[0],
        partition_id=partition_id,
    )
    answer = await connection.call(request, pb.ListOffsetsResponse)
    assert not answer.buckets_resp[0].error_code


# ---- dropped tables


async def test_the_directory_of_a_dropped_table_goes_away(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(buckets=2))
        for bucket in (0, 1):
            await append(connection, table_id, bucket=bucket)

        await drop_table(connection)

        assert not (tmp_path / "log" / str(table_id)).exists()
        assert not list(tmp_path.glob("log/dropped/*"))
        assert await create_table(connection) != table_id


async def test_a_table_is_dropped_while_its_rows_are_read_and_written(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        polls = [
            asyncio.ensure_future(fetch(connection, table_id, 0, 0, wait_ms=300)) for _ in range(5)
        ]
        writes = [asyncio.ensure_future(append(connection, table_id)) for _ in range(50)]

        await drop_table(connection)

        codes = {(await write).error_code for write in writes}
        await asyncio.gather(*polls)
        assert codes <= {0, 21, 44}, codes
        assert not (tmp_path / "log" / str(table_id)).exists()


async def test_what_was_half_removed_when_the_process_died_is_removed_at_the_start(tmp_path):
    half = tmp_path / "log" / "dropped" / "7"
    half.mkdir(parents=True)
    (half / "rest").write_bytes(b"x")

    async with running(tmp_path):
        assert not half.exists()


async def test_a_directory_that_the_catalog_does_not_know_is_reported_and_kept(tmp_path, caplog):
    async with running(tmp_path):
        pass
    unknown = tmp_path / "log" / "99" / "0"
    unknown.mkdir(parents=True)
    (unknown / f"{0:020d}.log").write_bytes(b"precious")
    (tmp_path / "log" / "98").write_bytes(b"not even a directory")

    async with running(tmp_path) as server, connected(server) as connection:
        await append(connection, await create_table(connection))

    reported = [each for each in caplog.records if each.message == "bucket cannot be opened"]
    assert [each.fields["bucket"] for each in reported] == ["table 99 bucket 0"]
    assert (unknown / f"{0:020d}.log").read_bytes() == b"precious"


async def test_segments_are_as_large_as_the_settings_say(tmp_path):
    given = {"storage": StorageSettings(LogSettings(segment_bytes_max=1_000))}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        table_id = await create_table(connection)
        await fill(connection, table_id, batches=10)

    sizes = [path.stat().st_size for path in tmp_path.glob(f"log/{table_id}/0/*.log")]
    assert len(sizes) > 3
    assert max(sizes) <= 1_000
