"""A server inside the test, a clock that the test moves, and clients that misbehave."""

import asyncio
import errno
import json
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from headwater.cluster.links import TcpConnection
from headwater.config.server import ServerSettings
from headwater.log.retention import LogSettings
from headwater.server.server import Server
from headwater.store.local import LocalDisk
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.frames import request_head
from tests.flows.appending import SCHEMA, TABLE, batch_of, fetch, produce, table_json
from tests.log.support import InterposedDisk

HOST = "127.0.0.1"
KIB = 1024
LOOKS_MAX = 1000
LOOK_EVERY_S = 0.01
SMALL_SEGMENTS = LogSettings(segment_bytes_max=2_000, index_interval_bytes=500)


class FakeClock:
    """Show the time that the test sets; whoever sleeps sleeps until the test is over."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.milliseconds = now_ms
        self.ahead_ms = 0
        """How far somebody has set the clock; no time passes by that."""
        self._began_ms = now_ms

    def now_ms(self) -> int:
        return self.milliseconds + self.ahead_ms

    def monotonic(self) -> float:
        return time.monotonic() + (self.milliseconds - self._began_ms) / 1000

    async def sleep(self, seconds: float) -> None:
        await asyncio.get_running_loop().create_future()


class HeldSyncs:
    """Hold back or fail the syncs of one bucket."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._open = threading.Event()
        self._open.set()
        self.is_failing = False

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def __call__(self, operation: str, path: str) -> None:
        if operation == "sync" and path.startswith(self._bucket):
            assert self._open.wait(LOOKS_MAX * LOOK_EVERY_S)
            if self.is_failing:
                raise OSError(errno.EIO, "injected", path)


def disk_with(before: HeldSyncs, directory: Path) -> InterposedDisk:
    return InterposedDisk(LocalDisk(directory / "log"), before=before)


@asynccontextmanager
async def running(directory: Path, **given) -> AsyncIterator[Server]:
    """Serve a directory; settings of the server may be given as well as parts of it."""
    parts = ("users", "quotas", "clock", "storage", "disk")
    settings = {"port": 0} | {name: value for name, value in given.items() if name not in parts}
    server = await Server.start(
        directory,
        ServerSettings(**settings),
        **{name: value for name, value in given.items() if name in parts},
    )
    try:
        yield server
    finally:
        for client in RawClient.opened:
            client.abort()
        RawClient.opened.clear()
        await server.stop()


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[TcpConnection]:
    connection = await TcpConnection.open(HOST, server.port)
    try:
        yield connection
    finally:
        await connection.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, but not for ever."""
    for _ in range(LOOKS_MAX):
        if condition():
            return
        await asyncio.sleep(LOOK_EVERY_S)
    raise AssertionError("the condition did not come true")


async def is_served(server: Server) -> bool:
    """Tell whether another client gets an answer now."""
    async with connected(server) as other:
        answer = await other.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)
    return len(answer.database_name) > 0


# ---- raw clients


def padded_request(size: int, request_id: int = 1) -> bytes:
    """Return a frame of so many bytes behind its length; its body cannot be decoded."""
    head = request_head(ApiKey.LIST_DATABASES, 0, request_id, body_bytes=size - 8)
    return head + bytes(size - 8)


def encoded(request, api: ApiKey, request_id: int = 1) -> bytes:
    body = request.SerializeToString()
    return request_head(api, 0, request_id, body_bytes=len(body)) + body


def fetch_request(table_id: int, *, wait_ms: int = 0, offset: int = 0) -> pb.FetchLogRequest:
    bucket = pb.FetchLogBucketRequest(bucket_id=0, fetch_offset=offset, max_fetch_bytes=1 << 24)
    return pb.FetchLogRequest(
        follower_server_id=-1,
        max_bytes=1 << 24,
        max_wait_ms=wait_ms,
        min_bytes=1,
        tables_req=[
            pb.FetchLogTableRequest(
                table_id=table_id, projection_pushdown_enabled=False, buckets_req=[bucket]
            )
        ],
    )


class RawClient:
    """Write and read bytes as they are, or do not read at all."""

    opened: ClassVar[list["RawClient"]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, server: Server) -> "RawClient":
        # The stream stops taking bytes from the kernel soon when nobody reads from it.
        endpoint = socket.create_connection((HOST, server.port))
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * KIB)
        cls.opened.append(cls(*await asyncio.open_connection(sock=endpoint, limit=KIB)))
        return cls.opened[-1]

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def answer_id(self) -> int:
        """Read one answer and return the id of its request."""
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        answer = await self._reader.readexactly(length)
        return struct.unpack_from(">i", answer, 1)[0]

    async def answer_ids(self, count: int) -> list[int]:
        """Read so many answers and return the ids of their requests."""
        return [await self.answer_id() for _ in range(count)]

    async def ended(self) -> bool:
        """Tell that the server closed the connection, reading away what comes before."""
        try:
            while await self._reader.read(64 * KIB):
                pass
        except ConnectionError:
            return True
        return True

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """Go away with a reset, as a killed process does."""
        self._writer.transport.abort()


# ---- tables and rows


async def create_table(connection: TcpConnection, content: bytes | None = None) -> int:
    await connection.call(
        pb.CreateTableRequest(
            table_path=TABLE, table_json=content or table_json(), ignore_if_exists=True
        ),
        pb.CreateTableResponse,
    )
    info = await connection.call(pb.GetTableInfoRequest(table_path=TABLE), pb.GetTableInfoResponse)
    return info.table_id


async def drop_table(connection: TcpConnection) -> None:
    request = pb.DropTableRequest(table_path=TABLE, ignore_if_not_exists=False)
    await connection.call(request, pb.DropTableResponse)


def partitioned_json(**properties: str) -> bytes:
    table = json.loads(table_json(buckets=1, **properties))
    column = {"name": "day", "data_type": {"type": "STRING"}, "id": len(SCHEMA)}
    table["schema"]["columns"].append(column)
    table["schema"]["highest_field_id"] += 1
    table["partition_key"] = ["day"]
    return json.dumps(table).encode()


async def partitions(connection: TcpConnection) -> dict[str, int]:
    request = pb.ListPartitionInfosRequest(table_path=TABLE)
    answer = await connection.call(request, pb.ListPartitionInfosResponse)
    return {
        info.partition_spec.partition_key_values[0].value: info.partition_id
        for info in answer.partitions_info
    }


async def append(
    connection: TcpConnection, table_id: int, *, bucket: int = 0, rows: int = 10, **batch
) -> pb.ProduceLogBucketResponse:
    records = batch_of([(bucket, number) for number in range(rows)], **batch)
    answer = await connection.call(produce(table_id, bucket, records), pb.ProduceLogResponse)
    return answer.buckets_resp[0]


async def fill(connection: TcpConnection, table_id: int, *, bucket: int = 0, batches: int) -> None:
    for _ in range(batches):
        assert not (await append(connection, table_id, bucket=bucket)).error_code


async def earliest(connection: TcpConnection, table_id: int, bucket: int = 0) -> int:
    request = pb.ListOffsetsRequest(
        follower_server_id=-1, offset_type=0, table_id=table_id, bucket_id=[bucket]
    )
    answer = await connection.call(request, pb.ListOffsetsResponse)
    return answer.buckets_resp[0].offset


async def error_at(connection: TcpConnection, table_id: int, offset: int, bucket: int = 0):
    answer = await fetch(connection, table_id, bucket, offset)
    return answer.error_code, answer.error_message


def flip_bit(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
