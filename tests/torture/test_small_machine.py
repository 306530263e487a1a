"""A server in a cgroup of 512 MiB under more than it can take: it refuses, and never dies."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.aio import AsyncClient, AsyncTable, connect
from headwater.config.client import ClientSettings
from headwater.config.server import limits_for
from headwater.errors import HeadwaterError
from headwater.wire.apis import ApiKey
from tests import figures
from tests.figures import note
from tests.server.support import HOST, KIB, encoded, fetch_request, padded_request
from tests.serving import ServerProcess

MIB = KIB * KIB
MEMORY = 512 * MIB
CGROUPS = Path("/sys/fs/cgroup/memory")
SLOW_SCANS = 30
LOAD_S = 20 * figures.times(1)
ROWS, KEYS = 100_000, 20_000
PATIENT = ClientSettings(deadline_s=30.0)

pytestmark = [
    pytest.mark.torture,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        os.geteuid() != 0 or not (CGROUPS / "cgroup.procs").exists(),
        reason="only root may make a cgroup, and only of the first version here",
    ),
]


@contextmanager
def small_machine(name: str) -> Iterator[Path]:
    """Make a cgroup with little memory and no swap."""
    group = CGROUPS / name
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(MEMORY))
    try:
        yield group
    finally:
        group.rmdir()


@dataclass
class Story:
    """Remember what was acked and what was refused."""

    rows: int = 0
    upserts: int = 0
    lookups: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def figures(self) -> dict[str, float | str]:
        return {
            "rows": self.rows,
            "upserts": self.upserts,
            "lookups": self.lookups,
            "refused": sum(self.refused.values()),
        }

    def note(self, fault: BaseException) -> None:
        name = type(fault).__name__
        self.refused[name] = self.refused.get(name, 0) + 1


def some_rows(start: int, count: int) -> pa.Table:
    numbers = pa.array(range(start, start + count), pa.int64())
    return pa.table({"id": numbers, "text": pa.array(["x" * 100] * count)})


async def _for_long(step: Callable[[int], Awaitable[None]], story: Story) -> None:
    loop = asyncio.get_running_loop()
    until, number = loop.time() + LOAD_S, 0
    while loop.time() < until:
        try:
            await step(number)
        except HeadwaterError as fault:
            assert fault.retriable, fault
            story.note(fault)
        number += 1


def slow_scan(port: int, table_id: int) -> socket.socket:
    """Ask for everything, again and again, and read next to nothing of it."""
    client = socket.create_connection((HOST, port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * KIB)
    client.setblocking(False)
    client.send(encoded(fetch_request(table_id), ApiKey.FETCH_LOG) * 20)
    return client


async def read_slowly(port: int, table_id: int) -> None:
    """Scan slowly, from the start again when the server has had enough."""
    client, loop = slow_scan(port, table_id), asyncio.get_running_loop()
    try:
        while True:
            received = b""
            with suppress(ConnectionError):
                received = await loop.sock_recv(client, 64 * KIB)
            if not received:
                client.close()
                await asyncio.sleep(0.2)
                client = slow_scan(port, table_id)
            await asyncio.sleep(0.1)
    finally:
        client.close()


async def ask_too_much(port: int, request: bytes) -> None:
    """Send requests of the largest size that hold nothing, one after the other."""
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as client, suppress(OSError):
            client.setblocking(False)
            await loop.sock_connect(client, (HOST, port))
            await loop.sock_sendall(client, request)
            await loop.sock_recv(client, KIB)
        await asyncio.sleep(0.2)


async def slow_states(table: AsyncTable) -> None:
    """Scan rows of a table with a key, slowly."""
    while True:
        with suppress(HeadwaterError):
            async for _ in table.scan().batches():
                await asyncio.sleep(0.5)
        await asyncio.sleep(0.1)


@asynccontextmanager
async def beside(work: list[Awaitable[None]]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def load(client: AsyncClient, port: int) -> Story:
    log = await client.create_table("log", {"id": "bigint", "text": "string"})
    keyed = await client.create_table(
        "keyed", {"id": "bigint", "text": "string"}, primary_key=["id"]
    )
    story = Story()
    for start in range(0, 10 * ROWS, ROWS):
        await log.append(some_rows(start, ROWS))
        story.rows += ROWS
    for start in range(0, 10 * KEYS, KEYS):
        await keyed.upsert(some_rows(start, KEYS))

    async def append(number: int) -> None:
        await log.append(some_rows(number, KEYS))
        story.rows += KEYS

    async def upsert(number: int) -> None:
        await keyed.upsert(some_rows(number % 10 * KEYS, KEYS))
        story.upserts += KEYS

    async def look_up(number: int) -> None:
        assert await keyed.get(number % KEYS) is not None
        story.lookups += 1

    table_id = log.info.table_id
    largest = padded_request(limits_for(MEMORY)["request_bytes_max"])
    heavy = [
        *(read_slowly(port, table_id) for _ in range(SLOW_SCANS)),
        *(ask_too_much(port, largest) for _ in range(4)),
        *(slow_states(keyed) for _ in range(8)),
    ]
    async with beside(heavy):
        await asyncio.gather(*(_for_long(step, story) for step in (append, upsert, look_up)))
    return story


async def test_a_server_with_little_memory_refuses_and_never_dies(tmp_path):
    with small_machine(f"headwater-{os.getpid()}") as group:
        enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
        server = ServerProcess(tmp_path / "data", before=enter)
        try:
            async with await connect(server.address, settings=PATIENT) as client:
                story = await load(client, server.port)
                rows = await (await client.table("log")).count()
            most = int((group / "memory.max_usage_in_bytes").read_text())
            note("small machine", **story.figures(), most_mib=most // MIB)
            code = server.exit_code
        finally:
            ended = await asyncio.to_thread(server.stop)

    assert code is None
    assert ended == 0
    assert rows >= story.rows
    assert min(story.rows, story.upserts, story.lookups) > 0
