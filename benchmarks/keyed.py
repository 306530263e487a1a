"""Upserts and lookups on a table of two million keys and ten columns."""

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.blocking import BenchTable, BlockingConnection
from benchmarks.redis import Redis
from benchmarks.rows import NARROW, narrow_batch
from headwater.config.server import ServerSettings
from headwater.model.bucket import TableBucket
from headwater.model.types import (
    BigIntType,
    DataType,
    DoubleType,
    IntType,
    StringType,
    TimestampType,
)
from headwater.rows.compacted.coders import KeyEncoder, RowEncoder
from headwater.rows.kv_batch import build_kv_batch
from headwater.server.server import Server
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.frames import request_head
from headwater.wire.write import BucketRecords, PutRequest, encode_put

KEY_COUNT = 2_000_000
ROWS_PER_BATCH = 10_000
KEYS_PER_LOOKUP = 1_000
IN_FLIGHT = 2
_TYPES: dict[pa.DataType, DataType] = {
    pa.int64(): BigIntType(),
    pa.int32(): IntType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.timestamp("us"): TimestampType(precision=6),
}
_ROWS = RowEncoder.of([_TYPES[field.type] for field in NARROW])
_KEYS = KeyEncoder.of([BigIntType()])


@dataclass(frozen=True, slots=True)
class Measured:
    """Hold how much was done, how long it took, and the processor time of the server."""

    count: int
    wall_s: float
    server_s: float

    @property
    def per_second(self) -> float:
        """Return how many a second."""
        return self.count / self.wall_s

    @property
    def per_core(self) -> float:
        """Return how many a second of one core."""
        return self.count / max(self.server_s, 1e-9)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Hold one batch as it is sent, and its keys and values as another store would have them."""

    put: bytes
    keys: list[bytes]
    values: list[bytes]


def encoded(numbers: np.ndarray, *, seed: int) -> Encoded:
    """Encode rows with these keys."""
    rows = narrow_batch(len(numbers), seed=seed).set_column(0, "k", pa.array(numbers, pa.int64()))
    keys, values = _KEYS.encode(rows.columns[:1]), _ROWS.encode(rows.columns)
    return Encoded(build_kv_batch(keys, values, schema_id=1), keys.to_list(), values.to_list())


def encoded_keys(numbers: np.ndarray) -> list[bytes]:
    """Encode keys."""
    return _KEYS.encode([pa.array(numbers, pa.int64())]).to_list()


def load_batches() -> Iterator[Encoded]:
    """Yield every key once."""
    for start in range(0, KEY_COUNT, ROWS_PER_BATCH):
        yield encoded(np.arange(start, start + ROWS_PER_BATCH), seed=start)


def update_batches(count: int, *, seed: int) -> list[Encoded]:
    """Return batches of keys that are there, in no order."""
    random = np.random.default_rng(seed)
    return [
        encoded(random.choice(KEY_COUNT, ROWS_PER_BATCH, replace=False), seed=seed + number)
        for number in range(count)
    ]


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(count: int, pid: int, work: Callable[[], None]) -> Measured:
    """Run something and measure it."""
    cpu, began = cpu_seconds(pid), time.perf_counter()
    work()
    return Measured(count, time.perf_counter() - began, cpu_seconds(pid) - cpu)


# ---- over the wire


def put_frame(table: BenchTable, records: bytes) -> bytes:
    """Return the request to write one batch."""
    request = PutRequest(
        acks=-1, table_id=table.table_id, timeout_ms=60_000, buckets=[BucketRecords(0, records)]
    )
    parts = encode_put(request)
    head = request_head(ApiKey.PUT_KV, 3, 1, body_bytes=sum(map(len, parts)))
    return b"".join([head, *parts])


def upsert(connection: BlockingConnection, table: BenchTable, batches: Sequence[Encoded]) -> None:
    """Write batches, a few in flight, and wait until the last is durable."""
    waiting = 0
    for batch in batches:
        connection.send_frame(put_frame(table, batch.put))
        waiting += 1
        if waiting == IN_FLIGHT:
            check_put(connection.receive())
            waiting -= 1
    for _ in range(waiting):
        check_put(connection.receive())


def check_put(body: memoryview) -> None:
    """Raise if the answer to a write is an error."""
    answer = pb.PutKvResponse.FromString(bytes(body)).buckets_resp[0]
    if answer.error_code:
        raise RuntimeError(answer.error_message)


def lookup_frame(connection: BlockingConnection, table: BenchTable, keys: list[bytes]) -> bytes:
    """Return the request to look keys up."""
    asked = pb.LookupBucketRequest(bucket_id=0, keys=keys)
    return connection.frame(pb.LookupRequest(table_id=table.table_id, buckets_req=[asked]))


def look_up(connection: BlockingConnection, table: BenchTable, asked: list[list[bytes]]) -> int:
    """Look lists of keys up, two requests in flight, and return how many values came back."""
    frames = [lookup_frame(connection, table, keys) for keys in asked]
    connection.send_frame(frames[0])
    found = 0
    for following in [*frames[1:], b""]:
        if following:
            connection.send_frame(following)
        found += _values_in(connection.receive())
    return found


def _values_in(body: memoryview) -> int:
    answer = pb.LookupResponse.FromString(bytes(body)).buckets_resp[0]
    return sum(map(bool, [value.values for value in answer.values]))


def lookups_us(
    connection: BlockingConnection, table: BenchTable, keys: Sequence[bytes]
) -> list[float]:
    """Return the microseconds that each of these keys takes alone."""
    took = []
    for key in keys:
        frame = lookup_frame(connection, table, [key])
        began = time.perf_counter()
        connection.send_frame(frame)
        connection.receive()
        took.append((time.perf_counter() - began) * 1e6)
    return took


# ---- Redis


def load_redis(redis: Redis) -> None:
    """Store every row."""
    for batch in load_batches():
        redis.set_many(list(zip(batch.keys, batch.values, strict=True)))


def upsert_redis(redis: Redis, batches: Sequence[Encoded]) -> None:
    """Read the old values, as a changelog needs them, and write the new ones."""
    for batch in batches:
        redis.get_many(batch.keys)
        redis.set_many(list(zip(batch.keys, batch.values, strict=True)))


def redis_lookups_us(redis: Redis, keys: Sequence[bytes]) -> list[float]:
    """Return the microseconds that each of these keys takes alone."""
    took = []
    for key in keys:
        began = time.perf_counter()
        redis.get(key)
        took.append((time.perf_counter() - began) * 1e6)
    return took


# ---- in process


@dataclass(frozen=True, slots=True)
class InProcess:
    """Hold what was measured without a wire."""

    lookups_per_second: float
    index_bytes_per_key: float
    from_snapshot_s: float
    from_log_s: float


async def in_process(directory: Path, table: BenchTable, keys: list[list[bytes]]) -> InProcess:
    """Open the directory here, look keys up, then rebuild the rows from the log."""
    from_snapshot, server = await _opened(directory)
    tablet = await server.tablets.pk_tablet(TableBucket(table.table_id, 0))
    rates = []
    for batch in keys:
        began = time.perf_counter()
        await tablet.lookup(batch)
        rates.append(len(batch) / (time.perf_counter() - began))
    index_bytes = tablet.state.index_bytes / tablet.row_count
    await server.stop()
    shutil.rmtree(directory / "log" / str(table.table_id) / "0" / "kv")
    from_log, server = await _opened(directory)
    await server.stop()
    return InProcess(statistics.median(rates), index_bytes, from_snapshot, from_log)


async def _opened(directory: Path) -> tuple[float, Server]:
    began = time.perf_counter()
    server = await Server.start(directory, ServerSettings(port=0))
    return time.perf_counter() - began, server


def run_in_process(directory: Path, table: BenchTable, keys: list[list[bytes]]) -> InProcess:
    """Measure what needs no wire."""
    return asyncio.run(in_process(directory, table, keys))
