"""Primary-key tables whose columns change, as the Fluss client sees them."""

import pyarrow as pa
import pytest_asyncio

from headwater.cluster.links import TcpConnection
from headwater.wire import fluss_pb2 as pb
from tests.conformance.keyed import changelog, create_keyed, delete, limited, lookup, shown, upsert
from tests.conformance.test_evolution import added, alter, opened_anew

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("score", pa.int64())])
ANN, BOB = {"id": 1, "name": "ann", "score": 10}, {"id": 2, "name": "bob", "score": None}
LONG_ANN, LONG_BOB = ANN | {"city": None}, BOB | {"city": None}


@pytest_asyncio.fixture
async def wire(server):
    connection = await TcpConnection.open("127.0.0.1", server.port)
    yield connection
    await connection.close()


async def filled(connection, path):
    table = await create_keyed(connection, path, SCHEMA, key=["id"])
    await upsert(table, ANN, BOB)
    return table


async def longer(connection, server, wire, path):
    """Write rows, add a column, and open the table as one who knows of it."""
    await filled(connection, path)
    await alter(wire, path, add_columns=[added("city", "STRING")])
    return await opened_anew(server, path)


async def test_old_rows_are_found_with_nulls_in_an_added_column(connection, server, wire, path):
    table = await longer(connection, server, wire, path)

    new = {"id": 3, "name": "cat", "score": 1, "city": "x"}
    await upsert(table, new)

    assert await lookup(table, [1], [2], [3]) == [LONG_ANN, LONG_BOB, new]
    read = await limited(table, 10)
    assert sorted(read.to_pylist(), key=lambda row: row["id"]) == [LONG_ANN, LONG_BOB, new]


async def test_the_changelog_shows_old_rows_padded(connection, server, wire, path):
    table = await longer(connection, server, wire, path)

    await upsert(table, LONG_ANN | {"city": "x"})
    await delete(table, {"id": 2})

    assert shown(await changelog(table, 3, offset=2)) == [
        ("-U", LONG_ANN),
        ("+U", LONG_ANN | {"city": "x"}),
        ("-D", LONG_BOB),
    ]


async def test_part_of_a_row_is_updated_that_was_written_before_the_column(
    connection, server, wire, path
):
    table = await longer(connection, server, wire, path)

    await upsert(table, {"id": 1, "city": "x"}, columns=["id", "city"])
    await upsert(table, {"id": 2, "score": 5}, columns=["id", "score"])

    found = [LONG_ANN | {"city": "x"}, LONG_BOB | {"score": 5}]
    assert await lookup(table, [1], [2]) == found


async def test_a_client_that_does_not_know_the_column_reads_and_writes_on(
    connection, server, wire, path
):
    old = await filled(connection, path)
    await alter(wire, path, add_columns=[added("city", "STRING")])
    table = await opened_anew(server, path)
    await upsert(table, LONG_BOB | {"city": "y"})

    await upsert(old, ANN | {"score": 11})
    await upsert(old, {"id": 2, "score": 6}, columns=["id", "score"])

    found = [LONG_ANN | {"score": 11}, BOB | {"score": 6, "city": "y"}]
    assert await lookup(table, [1], [2]) == found


async def test_a_dropped_column_is_gone_from_rows_and_a_renamed_one_keeps_its_values(
    connection, server, wire, path
):
    await filled(connection, path)

    await alter(wire, path, drop_columns=[pb.DropColumn(column_name="score")])
    renamed = pb.RenameColumn(old_column_name="name", new_column_name="title")
    await alter(wire, path, rename_columns=[renamed])

    table = await opened_anew(server, path)
    assert await lookup(table, [1]) == [{"id": 1, "title": "ann"}]
    await upsert(table, {"id": 1, "title": "anna"})
    assert await lookup(table, [1], [2]) == [{"id": 1, "title": "anna"}, {"id": 2, "title": "bob"}]


async def test_a_position_of_a_partial_update_means_a_column_of_the_schema_it_was_written_under(
    connection, server, wire, path
):
    old = await filled(connection, path)
    await alter(wire, path, drop_columns=[pb.DropColumn(column_name="name")])
    await alter(wire, path, add_columns=[added("city", "BIGINT")])

    await upsert(old, {"id": 1, "score": 99}, columns=["id", "score"])

    table = await opened_anew(server, path)
    assert await lookup(table, [1]) == [{"id": 1, "score": 99, "city": None}]
