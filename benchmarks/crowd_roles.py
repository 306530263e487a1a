"""The processes of a crowd: the server that is watched, and each kind of client."""

import asyncio
import json
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import numpy as np

from benchmarks.blocking import BenchTable, BlockingConnection, check_ack, log_batch
from benchmarks.keyed import encoded_keys, lookup_frame
from benchmarks.rows import NARROW, narrow_batch
from headwater import aio
from headwater.config.server import ServerSettings
from headwater.runtime.loops import run
from headwater.server.server import Server
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.fetch import decode_fetch_answer
from headwater.wire.frames import LENGTH, request_head, response_frame

TICK_S = 0.002
KEYS = 1_000
FETCH_WAIT_MS = 2_000
BULK_ROWS = 10_000
FLOOD_FRAMES = 2_000


# ---- the server


class Stalls:
    """Watch how late the loop gets to a timer, and how much of that it worked itself."""

    def __init__(self) -> None:
        self.wall_s = self.worked_s = 0.0

    async def watch(self) -> None:
        while True:
            due, worked = time.monotonic() + TICK_S, time.thread_time()
            await asyncio.sleep(TICK_S)
            late = time.monotonic() - due
            self.wall_s = max(self.wall_s, late)
            self.worked_s = max(self.worked_s, min(late, time.thread_time() - worked))

    def tell(self, place: TextIO) -> None:
        """Write a line and begin anew."""
        place.write(json.dumps([self.wall_s, self.worked_s]) + "\n")
        place.flush()
        self.wall_s = self.worked_s = 0.0


async def serve(directory: Path) -> None:
    """Serve a directory until SIGTERM; SIGUSR1 tells the stalls since the last one."""
    loop, ended, stalls = asyncio.get_running_loop(), asyncio.Event(), Stalls()
    server = await Server.start(directory, ServerSettings(port=0))
    print(f" serving port={server.port}", file=sys.stderr, flush=True)
    with directory.with_name("stalls").open("a") as place:
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        loop.add_signal_handler(signal.SIGUSR1, stalls.tell, place)
        watching = loop.create_task(stalls.watch())
        await ended.wait()
        watching.cancel()
    await server.stop()


# ---- clients


def write(port: int, table_id: int, seconds: float, every_s: float) -> list[float]:
    """Append single rows at a steady pace and return how long each ack took."""
    connection, table = BlockingConnection(port), BenchTable(table_id, NARROW)
    frame = connection.append_frame(table, 0, log_batch(narrow_batch(1, seed=1), None), acks=-1)
    return _paced(connection, frame, seconds, every_s, check=True)


def look_up(port: int, table_id: int, seconds: float, every_s: float) -> list[float]:
    """Look one key up at a steady pace and return how long each answer took."""
    connection = BlockingConnection(port)
    frame = lookup_frame(connection, BenchTable(table_id, NARROW), encoded_keys(np.arange(1)))
    return _paced(connection, frame, seconds, every_s, check=False)


def _paced(
    connection: BlockingConnection, frame: bytes, seconds: float, every_s: float, *, check: bool
) -> list[float]:
    took, began = [], time.perf_counter()
    due = began
    while due < began + seconds:
        time.sleep(max(due - time.perf_counter(), 0))
        sent = time.perf_counter()
        connection.send_frame(frame)
        answer = connection.receive()
        took.append(time.perf_counter() - sent)
        if check:
            check_ack(answer)
        due = max(due + every_s, time.perf_counter())
    return took


class Tail:
    """Follow the end of one bucket with the least that a client can do."""

    def __init__(self, port: int, table_id: int, offset: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers, self.offset = 0, offset
        self._table_id = table_id
        self._received = bytearray()
        self.ask()

    def ask(self) -> None:
        self.socket.sendall(fetch_frame(self._table_id, self.offset))

    def take(self) -> None:
        """Receive what came; with a whole answer ask for what follows it."""
        self._received += self.socket.recv(1 << 20)
        data = self._received
        if len(data) < LENGTH.size:
            return
        end = LENGTH.size + LENGTH.unpack_from(data)[0]
        if len(data) < end:
            return
        frame = response_frame(memoryview(bytes(data[LENGTH.size : end])))
        answer = decode_fetch_answer(frame.body)[0].buckets[0]
        assert not answer.fields.error_code, answer.fields.error_message
        if answer.size:
            self.answers += 1
            self.offset = answer.fields.high_watermark
        self._received = bytearray(data[end:])
        self.ask()


def fetch_frame(table_id: int, offset: int, *, wait_ms: int = FETCH_WAIT_MS) -> bytes:
    bucket = pb.FetchLogBucketRequest(bucket_id=0, fetch_offset=offset, max_fetch_bytes=1 << 20)
    table = pb.FetchLogTableRequest(
        table_id=table_id, projection_pushdown_enabled=False, buckets_req=[bucket]
    )
    body = pb.FetchLogRequest(
        follower_server_id=-1,
        max_bytes=16 << 20,
        max_wait_ms=wait_ms,
        min_bytes=1,
        tables_req=[table],
    ).SerializeToString()
    return request_head(ApiKey.FETCH_LOG, 0, 1, body_bytes=len(body)) + body


def tail(port: int, table_id: int, count: int) -> list[float]:
    """Follow a bucket with many connections until told to stop; return answers and rows."""
    connection = BlockingConnection(port)
    asked = pb.ListOffsetsRequest(
        follower_server_id=-1, offset_type=1, table_id=table_id, bucket_id=[0]
    )
    answer = pb.ListOffsetsResponse.FromString(bytes(connection.call(asked)))
    start = answer.buckets_resp[0].offset
    tails, ended = [Tail(port, table_id, start) for _ in range(count)], []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    with selectors.DefaultSelector() as waiting:
        for each in tails:
            waiting.register(each.socket, selectors.EVENT_READ, each)
        print("ready", flush=True)
        while not ended:
            for key, _ in waiting.select(0.1):
                key.data.take()
    return [sum(each.answers for each in tails), sum(each.offset - start for each in tails)]


def write_much(port: int, table_id: int) -> list[float]:
    """Append large batches, one after the other, until told to stop."""
    connection, table, ended = BlockingConnection(port), BenchTable(table_id, NARROW), []
    frame = connection.append_frame(
        table, 0, log_batch(narrow_batch(BULK_ROWS, seed=1), "zstd"), acks=-1
    )
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    print("ready", flush=True)
    count = 0
    while not ended:
        connection.send_frame(frame)
        check_ack(connection.receive())
        count += 1
    return [count, count * BULK_ROWS]


def flood(port: int, table_id: int) -> list[float]:
    """Send fetches without ever reading an answer, as many as the server takes."""
    endpoint, ended, sent = socket.create_connection(("127.0.0.1", port)), [], 0
    endpoint.settimeout(0.1)
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    frames = memoryview(fetch_frame(table_id, 0, wait_ms=0) * FLOOD_FRAMES)
    print("ready", flush=True)
    while not ended:
        with suppress(TimeoutError):
            sent += endpoint.send(frames[sent % len(frames) :])
    return [sent * FLOOD_FRAMES / len(frames), 0]


async def read_together(port: int, count: int, *, ended: asyncio.Event) -> list[float]:
    """Read a table with cursors of their own that commit after every poll."""
    polls = 0

    async def member(number: int) -> None:
        nonlocal polls
        async with await aio.connect(f"127.0.0.1:{port}") as client:
            table = await client.table("followed")
            async with table.cursor(f"crowd{number}", start="latest", auto_commit=False) as cursor:
                while not ended.is_set():
                    if await cursor.poll(timeout_s=0.5):
                        await cursor.commit()
                        polls += 1

    members = [asyncio.create_task(member(number)) for number in range(count)]
    await asyncio.sleep(1)
    print("ready", flush=True)
    await asyncio.gather(*members)
    return [polls, 0]


async def _cursors(port: int, count: int) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    print(json.dumps(await read_together(port, count, ended=ended)))


def main(role: str, *given: str) -> None:
    """Play one role; what it found out is printed as JSON."""
    if role == "serve":
        run(serve(Path(given[0])))
        return
    numbers = [float(each) for each in given]
    port, rest = int(numbers[0]), numbers[1:]
    if role == "cursors":
        run(_cursors(port, int(rest[0])))
        return
    table_id = int(rest[0])
    found = {
        "write": lambda: write(port, table_id, *rest[1:]),
        "look_up": lambda: look_up(port, table_id, *rest[1:]),
        "tail": lambda: tail(port, table_id, int(rest[1])),
        "write_much": lambda: write_much(port, table_id),
        "flood": lambda: flood(port, table_id),
    }[role]()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
