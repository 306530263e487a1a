"""Options of one table that decide about its files: size and age of segments, late deletes."""

import json
from dataclasses import replace

import pytest

from headwater.config.spellings import SPELLINGS
from headwater.server.catalog.alter import SetTableOption
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import TABLE, table_json
from tests.server.support import (
    FakeClock,
    append,
    connected,
    create_table,
    earliest,
    error_at,
    fill,
    running,
)

HOUR_MS = 3_600_000
SMALL = {"log.segment.bytes": "2000"}


@pytest.fixture
def clock():
    return FakeClock()


def asked_for(**custom: str) -> bytes:
    """Describe a table as Flink does, with every option that is not `table.` a custom one."""
    table = json.loads(table_json())
    table["custom_properties"] = custom
    return json.dumps(table).encode()


def files(directory, table_id: int) -> list[str]:
    bucket = directory / "log" / str(table_id) / "0"
    return sorted(each.name for each in bucket.iterdir() if ".log" in each.name)


async def alter(connection, **options: str) -> None:
    changes = [
        pb.AlterConfig(config_key=key, config_value=value, op_type=0)
        for key, value in options.items()
    ]
    request = pb.AlterTableRequest(
        table_path=TABLE, ignore_if_not_exists=False, config_changes=changes
    )
    await connection.call(request, pb.AlterTableResponse)


async def test_rows_are_gone_under_a_retention_of_zero_hours(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, asked_for(**{"log.retention.hours": "0"}))
        await fill(connection, table_id, batches=3)
        clock.milliseconds += 1_000

        await server.upkeep.expire_rows()

        assert await earliest(connection, table_id) == 30


async def test_rows_beyond_a_retention_in_bytes_are_gone(tmp_path, clock):
    options = SMALL | {"log.retention.bytes": "5000"}
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, asked_for(**options))
        await fill(connection, table_id, batches=40)

        await server.upkeep.expire_rows()

        assert await earliest(connection, table_id) > 0
        assert sum(each.stat().st_size for each in (tmp_path / "log").rglob("*.log")) < 7_000


async def test_segments_are_as_large_as_the_table_says_and_others_are_not(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, asked_for(**SMALL))
        await fill(connection, table_id, batches=20)
        small = files(tmp_path, table_id)
        await alter(connection, **{"segment.bytes": "1000000"})
        await fill(connection, table_id, batches=20)

    assert len(small) > 3
    assert len(files(tmp_path, table_id)) == len(small)


async def test_the_size_of_segments_holds_after_a_restart(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, asked_for(**SMALL))
        await append(connection, table_id)

    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await fill(connection, table_id, batches=20)

    assert len(files(tmp_path, table_id)) > 3


async def test_a_segment_is_closed_when_its_first_row_is_old(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, asked_for(**{"log.roll.hours": "1"}))
        await append(connection, table_id)
        clock.milliseconds += HOUR_MS - 1
        await append(connection, table_id)
        await server.upkeep.expire_rows()
        before = files(tmp_path, table_id)

        clock.milliseconds += 1
        await server.upkeep.expire_rows()
        await server.upkeep.expire_rows()

        assert len(before) == 1
        assert files(tmp_path, table_id) == [*before, f"{20:020d}.log"]


async def test_files_of_expired_rows_stay_for_the_delay(tmp_path, clock):
    options = SMALL | {"log.retention.hours": "1", "log.segment.delete.delay.ms": "60000"}
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, asked_for(**options))
        await fill(connection, table_id, batches=10)
        written = files(tmp_path, table_id)
        clock.milliseconds += 2 * HOUR_MS
        await server.upkeep.expire_rows()

        due_ms = clock.milliseconds + 60_000
        kept = [f"{name}.deleted-{due_ms}" for name in written]
        assert files(tmp_path, table_id) == sorted([*kept, f"{100:020d}.log"])
        assert await earliest(connection, table_id) == 100
        assert (await error_at(connection, table_id, 99))[0] == 19
        clock.milliseconds += 59_999
        await server.upkeep.expire_rows()
        assert len(files(tmp_path, table_id)) == len(written) + 1
        clock.milliseconds += 1
        await server.upkeep.expire_rows()
        assert files(tmp_path, table_id) == [f"{100:020d}.log"]


async def test_files_that_wait_to_be_deleted_are_deleted_after_a_restart(tmp_path, clock):
    options = SMALL | {"log.retention.hours": "1", "file.delete.delay.ms": "60000"}
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection, asked_for(**options))
        await fill(connection, table_id, batches=10)
        clock.milliseconds += 2 * HOUR_MS
        await server.upkeep.expire_rows()
        await server.upkeep.remember_time()
        waiting = len(files(tmp_path, table_id))

    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await server.upkeep.expire_rows()
        assert len(files(tmp_path, table_id)) == waiting > 1
        clock.milliseconds += 60_000
        await server.upkeep.expire_rows()

        assert files(tmp_path, table_id) == [f"{100:020d}.log"]
        await append(connection, table_id)
        assert await earliest(connection, table_id) == 100


async def test_an_unknown_option_is_refused_on_the_wire_with_the_nearest(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        with pytest.raises(Exception, match=r"no table option 'log.retention.hour'") as refused:
            await create_table(connection, asked_for(**{"log.retention.hour": "1"}))

        assert "Did you mean 'log.retention.hours'" in str(refused.value)


async def test_every_spelling_that_a_log_can_have_is_stored_under_our_name(tmp_path, clock):
    names = [each.name for each in SPELLINGS.values() if each.option.name.startswith("table.log.")]
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await create_table(connection)
        path = server._services.catalog.tables.all()[0].path
        for name in names:
            table = server._services.catalog.tables.alter(path, [SetTableOption(name, "2048")])

            held = table.descriptor.properties[SPELLINGS[name].option.name]
            assert held == f"2048 {SPELLINGS[name].unit}"


async def test_a_table_of_an_earlier_version_is_served_and_its_options_are_told(
    tmp_path, clock, caplog
):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection)
        await append(connection, table_id)
        tables = server._services.catalog.tables
        held = tables.by_id(table_id)
        custom = {"log.retention.hours": "0", "whatever": "x"}
        with tables._store.transaction():
            older = replace(held.descriptor, custom_properties=custom)
            tables._store.update_table(replace(held, descriptor=older))

    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        clock.milliseconds += 1_000
        await server.upkeep.expire_rows()

        assert await earliest(connection, table_id) == 0
        told = [each for each in caplog.records if "options without effect" in each.getMessage()]
        assert len(told) == 1
