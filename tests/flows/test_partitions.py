"""Partitions that writers create on the fly, as clients of the protocol do."""

import asyncio
import json

from headwater import aio
from headwater.cluster.links import TcpConnection
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import table_json
from tests.server.support import FakeClock, running

PATH = pb.TablePath(database_name="fluss", table_name="by_day")
DAYS = ("20260101", "20260102")


async def create(connection):
    table = json.loads(table_json())
    table["schema"]["columns"].append({"name": "day", "data_type": {"type": "STRING"}, "id": 2})
    table["schema"]["highest_field_id"] = 2
    table["partition_key"] = ["day"]
    request = pb.CreateTableRequest(
        table_path=PATH, table_json=json.dumps(table).encode(), ignore_if_exists=True
    )
    await connection.call(request, pb.CreateTableResponse)


async def partition_id(connection, day):
    spec = pb.PartitionSpec(partition_key_values=[pb.KeyValue(key="day", value=day)])
    request = pb.CreatePartitionRequest(table_path=PATH, partition_spec=spec, ignore_if_exists=True)
    await connection.call(request, pb.CreatePartitionResponse)
    path = pb.PhysicalTablePath(database_name="fluss", table_name="by_day", partition_name=day)
    metadata = await connection.call(
        pb.MetadataRequest(partitions_path=[path]), pb.MetadataResponse
    )
    return metadata.partition_metadata[0].partition_id


async def test_writers_that_race_to_create_a_partition_agree_on_it(server, connection):
    await create(connection)
    others = [await TcpConnection.open("127.0.0.1", server.port) for _ in range(4)]

    found = await asyncio.gather(*(partition_id(each, day) for each in others for day in DAYS))

    assert len(set(found[0::2])) == len(set(found[1::2])) == 1
    assert found[0] != found[1]
    for each in others:
        await each.close()


async def test_rows_for_many_new_partitions_wait_for_none_of_them(tmp_path):
    # The clock never ends a sleep, so nobody may wait a while for a partition to appear.
    async with (
        running(tmp_path, clock=FakeClock()) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        table = await client.create_table(
            "t", {"id": "BIGINT", "day": "STRING"}, partition_by="day"
        )

        await table.append([{"id": number, "day": f"d{number}"} for number in range(100)])

        assert len(await table.partitions()) == 100
        assert await table.count() == 100
