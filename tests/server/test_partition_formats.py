"""Automatic partitions take the time format of the values that a table gets."""

import json
from datetime import UTC, datetime

import pytest

import headwater
from headwater.runtime.clock import SystemClock
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import TABLE
from tests.server.support import (
    FakeClock,
    connected,
    create_table,
    partitioned_json,
    partitions,
    running,
    until,
)

BY_DAY = {
    "table.auto-partition.enabled": "true",
    "table.auto-partition.time-zone": "UTC",
}
TODAY, TOMORROW = "20231114", "20231115"


@pytest.fixture
def clock():
    return FakeClock()


async def create_partition(connection, day: str) -> None:
    spec = pb.PartitionSpec(partition_key_values=[pb.KeyValue(key="day", value=day)])
    request = pb.CreatePartitionRequest(
        table_path=TABLE, partition_spec=spec, ignore_if_exists=True
    )
    await connection.call(request, pb.CreatePartitionResponse)


async def with_partitions(server, connection, content: bytes) -> int:
    table_id = await create_table(connection, content)
    await until(lambda: len(server._services.catalog.partitions.list(_path(server))) == 2)
    return table_id


def _path(server):
    return server._services.catalog.tables.all()[0].path


def _format(server) -> str | None:
    held = server._services.catalog.tables.all()[0].descriptor.properties
    return held.get("table.auto-partition.time-format")


async def test_the_first_value_with_dashes_decides_and_empty_partitions_are_renewed(
    tmp_path, clock
):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await with_partitions(server, connection, partitioned_json(**BY_DAY))
        before = list(await partitions(connection))

        await create_partition(connection, "2023-11-14")
        await until(lambda: len(server._services.catalog.partitions.list(_path(server))) == 2)

        assert before == [TODAY, TOMORROW]
        assert list(await partitions(connection)) == ["2023-11-14", "2023-11-15"]
        assert _format(server) == "yyyy-MM-dd"


def test_a_table_with_rows_keeps_its_format_and_says_which(tmp_path):
    day = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    columns, options = {"id": "BIGINT", "day": "STRING"}, BY_DAY
    with headwater.open(tmp_path) as hw:
        plain = hw.create_table("plain", columns, partition_by="day", options=options)
        dashed = hw.create_table("dashed", columns, partition_by="day", options=options)
        plain.append([(1, f"{day:%Y%m%d}")])
        dashed.append([(1, f"{day:%Y-%m-%d}")])

        with pytest.raises(headwater.errors.InvalidPartitionError, match="Use the form yyyyMMdd"):
            plain.append([(2, f"{day:%Y-%m-%d}")])
        with pytest.raises(headwater.errors.InvalidPartitionError, match="form yyyy-MM-dd"):
            dashed.append([(2, f"{day:%Y%m%d}")])

        assert [len(table.scan().to_arrow()) for table in (plain, dashed)] == [1, 1]


async def test_a_format_that_was_asked_for_stays(tmp_path, clock):
    given = BY_DAY | {"table.auto-partition.time-format": "yyyy_MM_dd"}
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await with_partitions(server, connection, partitioned_json(**given))

        with pytest.raises(Exception, match="Use the form yyyy_MM_dd"):
            await create_partition(connection, "2023-11-14")

        assert list(await partitions(connection)) == ["2023_11_14", "2023_11_15"]


async def test_a_value_that_is_no_time_is_refused_with_the_form_to_use(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await with_partitions(server, connection, partitioned_json(**BY_DAY))

        with pytest.raises(Exception, match="Use the form yyyyMMdd"):
            await create_partition(connection, "today")

        assert _format(server) is None


async def test_days_of_a_date_are_written_as_dates_are(tmp_path, clock):
    content = json.loads(partitioned_json(**BY_DAY))
    content["schema"]["columns"][-1]["data_type"]["type"] = "DATE"
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await with_partitions(server, connection, json.dumps(content).encode())

        assert list(await partitions(connection)) == ["2023-11-14", "2023-11-15"]
        assert _format(server) == "yyyy-MM-dd"


async def test_a_format_that_was_taken_holds_after_a_restart(tmp_path, clock):
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await with_partitions(server, connection, partitioned_json(**BY_DAY))
        await create_partition(connection, "2023-11-14")

    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await until(lambda: len(server._services.catalog.partitions.list(_path(server))) == 2)

        assert list(await partitions(connection)) == ["2023-11-14", "2023-11-15"]
