"""A real process under clients that ask for much and read nothing."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from headwater.wire.apis import ApiKey
from tests.flows.appending import fetch, with_table
from tests.server.support import HOST, KIB, append, connected, encoded, fetch_request
from tests.serving import serving

MIB = 1024 * KIB


def memory_of(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def asking_in_vain(port: int, table_id: int) -> socket.socket:
    """Ask for hundreds of megabytes and read none of them."""
    client = socket.create_connection((HOST, port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * KIB)
    client.sendall(encoded(fetch_request(table_id), ApiKey.FETCH_LOG) * 50)
    return client


@pytest.mark.timeout(60)
async def test_the_memory_of_a_server_stays_bounded_and_it_stops_under_clients_that_do_not_read(
    tmp_path,
):
    with serving(tmp_path / "data") as process:
        table_id = await with_table(process.port)
        async with connected(process) as connection:
            for _ in range(10):
                await append(connection, table_id, rows=150_000)
            await fetch(connection, table_id, 0, 0)
            before = memory_of(process.pid)
            clients = [asking_in_vain(process.port, table_id) for _ in range(3)]
            for _ in range(20):
                assert not (await fetch(connection, table_id, 0, 0)).error_code
            grown = memory_of(process.pid) - before
        code = await asyncio.to_thread(process.stop)

    assert grown < 200 * MIB
    assert code == 0
    for client in clients:
        client.close()
