"""Tables whose columns change, as the Fluss client sees them."""

import json

import fluss
import pyarrow as pa
import pytest_asyncio

from headwater.cluster.links import TcpConnection
from headwater.wire import fluss_pb2 as pb
from tests.conformance.client import append, create, read_all

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("score", pa.int64())])
OLD = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"], "score": [10, 20]})


@pytest_asyncio.fixture
async def wire(server):
    connection = await TcpConnection.open("127.0.0.1", server.port)
    yield connection
    await connection.close()


async def alter(wire, path, **changes):
    table_path = pb.TablePath(database_name=path.database_name, table_name=path.table_name)
    request = pb.AlterTableRequest(table_path=table_path, ignore_if_not_exists=False, **changes)
    await wire.call(request, pb.AlterTableResponse)


def added(name, type_name):
    return pb.AddColumn(
        column_name=name,
        data_type_json=json.dumps({"type": type_name}).encode(),
        column_position_type=0,
    )


async def opened_anew(server, path):
    config = fluss.Config({"bootstrap.servers": server.address})
    connection = await fluss.FlussConnection.create(config)
    return await connection.get_table(path)


async def test_old_rows_have_nulls_in_an_added_column(connection, admin, server, wire, path):
    await create(admin, path, SCHEMA)
    await append(await connection.get_table(path), OLD)

    await alter(wire, path, add_columns=[added("city", "STRING")])

    table = await opened_anew(server, path)
    new = pa.table({**{n: OLD[n] for n in OLD.column_names}, "city": ["x", "y"]})
    await append(table, new)
    projected = await read_all(table, scan=table.new_scan().project_by_name(["city", "id"]))
    fixed = await read_all(table, scan=table.new_scan().with_fixed_schema(True))
    assert projected["city"].to_pylist() == [None, None, "x", "y"]
    assert projected["id"].to_pylist() == [1, 2, 1, 2]
    assert fixed["city"].to_pylist() == [None, None, "x", "y"]


async def test_a_dropped_column_is_gone_from_old_rows(connection, admin, server, wire, path):
    await create(admin, path, SCHEMA)
    await append(await connection.get_table(path), OLD)

    await alter(wire, path, drop_columns=[pb.DropColumn(column_name="name")])

    table = await opened_anew(server, path)
    projected = await read_all(table, scan=table.new_scan().project_by_name(["score"]))
    fixed = await read_all(table, scan=table.new_scan().with_fixed_schema(True))
    assert projected["score"].to_pylist() == [10, 20]
    assert fixed.to_pylist() == [{"id": 1, "score": 10}, {"id": 2, "score": 20}]


async def test_a_renamed_column_keeps_its_values(connection, admin, server, wire, path):
    await create(admin, path, SCHEMA)
    await append(await connection.get_table(path), OLD)

    renamed = pb.RenameColumn(old_column_name="name", new_column_name="title")
    await alter(wire, path, rename_columns=[renamed])

    table = await opened_anew(server, path)
    projected = await read_all(table, scan=table.new_scan().project_by_name(["title"]))
    assert projected["title"].to_pylist() == ["a", "b"]


async def test_a_client_that_opened_the_table_earlier_reads_and_writes_on(
    connection, admin, wire, path
):
    await create(admin, path, SCHEMA)
    table = await connection.get_table(path)
    await append(table, OLD)

    await alter(wire, path, drop_columns=[pb.DropColumn(column_name="name")])

    await append(table, OLD)
    read = await read_all(table)
    assert read["name"].to_pylist() == ["a", "b", "a", "b"]
