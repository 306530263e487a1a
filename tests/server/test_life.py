"""Starting, stopping and starting again."""

import asyncio
import gc
import signal
import socket
import subprocess
import sys
import threading

import pytest

from headwater.config.server import ServerSettings
from headwater.errors import ConflictError, DirectoryInUseError
from headwater.server.connection import Connection
from headwater.server.server import Server
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import TABLE, batch_of, fetch, produce, read_rows
from tests.server.support import (
    HOST,
    KIB,
    HeldSyncs,
    RawClient,
    append,
    connected,
    create_table,
    disk_with,
    is_served,
    padded_request,
    partitioned_json,
    partitions,
    running,
    until,
)
from tests.serving import ServerProcess


def held() -> list[Connection]:
    """Return the connections of the server that take up memory, served or not."""
    return [each for each in gc.get_objects() if type(each) is Connection]


async def test_a_stopping_server_answers_what_is_in_flight_and_then_closes(tmp_path):
    syncs = HeldSyncs("1/0/")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        await append(connection, table_id)
        syncs.hold()
        written = asyncio.ensure_future(append(connection, table_id))
        (_, tablet) = server._services.tablets.all_open()[0]
        await until(lambda: tablet.log.end_offset == 20)

        stopping = asyncio.ensure_future(server.stop())
        await until(lambda: server._services.is_stopping)
        syncs.release()

        assert (await written).base_offset == 10
        await stopping
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(HOST, server.port)


async def test_a_stopping_server_takes_no_new_requests(tmp_path):
    syncs = HeldSyncs("1/0/")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        await append(connection, table_id)
        syncs.hold()
        written = [asyncio.ensure_future(append(connection, table_id)) for _ in range(2)]
        (_, tablet) = server._services.tablets.all_open()[0]
        await until(lambda: tablet.log.end_offset == 30)
        stopping = asyncio.ensure_future(server.stop())
        await until(lambda: all(each._is_finishing for each in server.listener._connections))
        late = asyncio.ensure_future(append(connection, table_id))

        syncs.release()
        await stopping

        assert [(await each).base_offset for each in written] == [10, 20]
        assert await asyncio.gather(late, return_exceptions=True) != [None]
        assert tablet.log.end_offset == 30


async def test_a_stopping_server_leaves_half_a_frame_behind(tmp_path):
    async with running(tmp_path) as server:
        client = await RawClient.open(server)
        client.send(padded_request(100 * KIB)[: 80 * KIB])
        await until(lambda: server.listener.requests.used_bytes > 0)

        await server.stop()

        assert await client.ended()
        assert server.listener.requests.used_bytes == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_in_order(tmp_path, number):
    process = ServerProcess(tmp_path / "data")

    process._process.send_signal(number)

    # Stopping sends one more signal, which changes nothing.
    assert await asyncio.to_thread(process.stop) == 0
    assert "stopped" in process.events()
    assert "Traceback" not in process.events()


async def test_a_second_server_on_a_directory_is_told_which_process_has_it(tmp_path):
    process = ServerProcess(tmp_path / "data")
    command = [sys.executable, "-m", "headwater", "serve", str(tmp_path / "data"), "--port", "0"]

    second = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=20, check=False
    )
    with pytest.raises(DirectoryInUseError) as error:
        await Server.start(tmp_path / "data", ServerSettings(port=0))

    assert second.returncode == 5
    assert str(process.pid) in second.stderr
    assert "Traceback" not in second.stderr
    assert str(process.pid) in str(error.value)
    assert await asyncio.to_thread(process.stop) == 0


async def test_a_port_in_use_leaves_no_lock_and_no_threads_behind(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        await append(connection, await create_table(connection))
    with socket.create_server((HOST, 0)) as other:
        settings = ServerSettings(port=other.getsockname()[1])

        with pytest.raises(ConflictError, match="in use"):
            await Server.start(tmp_path, settings)

    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("headwater-")]
    async with running(tmp_path) as server:
        assert await is_served(server)


async def test_a_stopped_server_leaves_no_threads_behind(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        await append(connection, await create_table(connection))

    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("headwater-")]


async def test_rows_and_writer_sequences_outlive_a_restart(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        writer = (await connection.call(pb.InitWriterRequest(), pb.InitWriterResponse)).writer_id
        for sequence in range(3):
            await append(connection, table_id, rows=2, writer_id=writer, sequence=sequence)

    async with running(tmp_path) as server, connected(server) as connection:
        resent = await append(connection, table_id, rows=2, writer_id=writer, sequence=2)
        following = await append(connection, table_id, rows=2, writer_id=writer, sequence=3)
        next_writer = await connection.call(pb.InitWriterRequest(), pb.InitWriterResponse)
        rows = await read_rows(server.port, table_id, buckets=1)

    assert (resent.error_code, resent.base_offset) == (0, 4)
    assert (following.error_code, following.base_offset) == (0, 6)
    assert next_writer.writer_id != writer
    assert rows == [(0, 0), (0, 1)] * 4


async def test_partitions_outlive_a_restart(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection, partitioned_json())
        spec = pb.PartitionSpec(partition_key_values=[pb.KeyValue(key="day", value="monday")])
        request = pb.CreatePartitionRequest(
            table_path=TABLE, partition_spec=spec, ignore_if_exists=False
        )
        await connection.call(request, pb.CreatePartitionResponse)
        before = await partitions(connection)

    async with running(tmp_path) as server, connected(server) as connection:
        assert await partitions(connection) == before
        assert list(before) == ["monday"]
        assert await create_table(connection, partitioned_json()) == table_id


async def test_rows_that_nobody_waited_for_are_kept_by_a_clean_stop(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        request = produce(table_id, 0, batch_of([(1, 1)]), acks=0)
        answer = await connection.call(request, pb.ProduceLogResponse)

    async with running(tmp_path) as server, connected(server) as connection:
        assert not answer.buckets_resp[0].error_code
        assert (await fetch(connection, table_id, 0, 0)).high_watermark == 1


async def test_connections_that_have_ended_leave_nothing_for_the_garbage_collector(tmp_path):
    async with running(tmp_path) as server:
        async with connected(server) as connection:
            table_id = await create_table(connection)
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                async with connected(server) as connection:
                    await append(connection, table_id)
                    await fetch(connection, table_id, 0, 0)
            await until(lambda: not held())
        finally:
            gc.enable()
