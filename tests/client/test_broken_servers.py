"""Answers of a broken or hostile server: a clear error each time, soon, and little memory."""

import asyncio
import random
import resource
import struct
from contextlib import asynccontextmanager, closing, suppress

import pytest

from headwater.client.client import connect
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.errors import HeadwaterError
from headwater.server.server import Server

SEEDS = 6
ANSWERS_SOUND = 4  # greeting and first metadata, so that most seeds get further
IMPATIENT = ClientSettings(deadline_s=0.5, request_timeout_s=0.3, connect_timeout_s=1.0)
WITHIN_S = 20.0
MEMORY_KIB_MAX = 512 * 1024
SOUND, TWICE = 0.5, 0.2
ROWS = {"id": "BIGINT", "name": "STRING"}
_LENGTH = struct.Struct(">i")
# A field of bytes, a packed list or a count that is far longer than the message.
_HUGE = bytes([0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0x07])


def flipped(luck: random.Random, frame: bytes) -> bytes:
    at = luck.randrange(len(frame))
    return frame[:at] + bytes([frame[at] ^ 1 << luck.randrange(8)]) + frame[at + 1 :]


def cut(luck: random.Random, frame: bytes) -> bytes:
    return frame[: luck.randrange(len(frame))]


def longer(luck: random.Random, frame: bytes) -> bytes:
    return frame + luck.randbytes(luck.randrange(1, 50))


def huge(luck: random.Random, frame: bytes) -> bytes:
    at = luck.randrange(5, len(frame) + 1) if len(frame) >= 5 else 0
    return frame[:at] + _HUGE + frame[at:]


def of_another_kind(luck: random.Random, frame: bytes) -> bytes:
    return bytes([luck.randrange(3, 256)]) + frame[1:]


def of_another_request(luck: random.Random, frame: bytes) -> bytes:
    return frame[:1] + _LENGTH.pack(luck.randrange(-5, 9)) + frame[5:]


def replaced(luck: random.Random, frame: bytes) -> bytes:
    return frame[:5] + luck.randbytes(luck.randrange(200))


CHANGES = (flipped, cut, longer, huge, of_another_kind, of_another_request, replaced)


class Between:
    """Stand between clients and a sound server, and spoil some answers when told to."""

    def __init__(self) -> None:
        self.server_port = 0
        self._luck = random.Random(0)
        self._change = None
        self._answers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def spoil(self, luck: random.Random, change) -> None:
        self._luck, self._change, self._answers = luck, change, 0

    async def serve(self, reader, writer) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", self.server_port)
        loop = asyncio.get_running_loop()
        for work in (self._requests(reader, outer), self._responses(inner, writer)):
            task = loop.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _requests(self, reader, writer) -> None:
        with suppress(ConnectionError), closing(writer):
            while data := await reader.read(65536):
                writer.write(data)

    async def _responses(self, reader, writer) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError), closing(writer):
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(4))
                frame = await reader.readexactly(length)
                for sent in self._spoiled(frame):
                    writer.write(_LENGTH.pack(len(sent)) + sent)

    def _spoiled(self, frame: bytes) -> list[bytes]:
        self._answers += 1
        is_sound = self._answers <= ANSWERS_SOUND or self._luck.random() < SOUND
        if self._change is None or is_sound:
            return [frame]
        changed = self._change(self._luck, frame)
        return [changed, frame] if self._luck.random() < TWICE else [changed]

    async def close(self) -> None:
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def between_clients_and_a_server(directory):
    between = Between()
    listener = await asyncio.start_server(between.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    settings = ServerSettings(
        host="127.0.0.1", port=0, advertised_host="127.0.0.1", advertised_port=port
    )
    server = await Server.start(directory, settings)
    between.server_port = server.port
    try:
        yield between, port
    finally:
        listener.close()
        await between.close()
        await server.stop()


async def used(port: int) -> list[str]:
    """Do what clients do, and return which errors they were told."""
    told: list[str] = []
    client = None
    for _ in range(3):
        try:
            client = await connect(f"127.0.0.1:{port}", settings=IMPATIENT)
            break
        except HeadwaterError as fault:
            told.append(type(fault).__name__)
    if client is None:
        return told
    try:
        for name in ("log", "keyed"):
            for work in (written, scanned, followed, looked_up):
                try:
                    await work(await client.table(name))
                except HeadwaterError as fault:
                    told.append(type(fault).__name__)
    finally:
        await client.close()
    return told


async def written(table) -> None:
    rows = [{"id": 1, "name": "a"}]
    await (table.upsert(rows) if table.info.is_keyed else table.append(rows))


async def scanned(table) -> None:
    await table.scan().to_arrow()


async def followed(table) -> None:
    tail = await table.tail("earliest")
    try:
        await tail.poll(0.1)
    finally:
        await tail.close()


async def looked_up(table) -> None:
    if table.info.is_keyed:
        await table.get({"id": 1})


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
async def test_spoiled_answers_are_told_as_errors_of_ours_and_soon(tmp_path, change):
    async with between_clients_and_a_server(tmp_path) as (between, port):
        sound = await connect(f"127.0.0.1:{port}")
        for name, key in (("log", ()), ("keyed", "id")):
            await write_some(await sound.create_table(name, ROWS, primary_key=key, buckets=2))
        await sound.close()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        told: list[str] = []
        for seed in range(SEEDS):
            between.spoil(random.Random(f"{change.__name__}{seed}"), change)
            async with asyncio.timeout(WITHIN_S):
                told += await used(port)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert told
    assert grown < MEMORY_KIB_MAX


async def write_some(table) -> None:
    rows = [{"id": number, "name": f"name {number}"} for number in range(50)]
    await (table.upsert(rows) if table.info.is_keyed else table.append(rows))
