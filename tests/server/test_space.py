"""What is dropped, expired or compacted gives its space and descriptors back at once."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater import aio
from headwater.client.client import AsyncClient
from headwater.kv.store import KvSettings
from headwater.log.retention import LogSettings
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings
from headwater.wire import fluss_pb2 as pb
from tests.server.support import FakeClock, connected, running, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
SMALL = StorageSettings(LogSettings(segment_bytes_max=20_000), KvSettings(segment_bytes_max=20_000))
SCHEMA = {"id": "BIGINT", "day": "STRING", "text": "STRING"}
HOUR_MS = 3_600_000


def rows(day: str) -> list[dict[str, object]]:
    return [{"id": number, "day": day, "text": os.urandom(500).hex()} for number in range(100)]


def held(directory: Path) -> set[str]:
    """Return the files below a directory that this process has open or mapped though deleted."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    found = {line.partition("/")[2] for line in maps} | set(_opened())
    return {each for each in found if str(directory)[1:] in each and each.endswith("(deleted)")}


def _opened() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            yield str(descriptor.readlink())
        except OSError:
            continue


def used_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


async def filled(client: AsyncClient, server: Server, *, day: str):
    """Write a log and rows by key, have both in files, and begin a scan that nobody ends."""
    keys = {"partition_by": "day", "exists_ok": True}
    log = await client.create_table("log", SCHEMA, **keys)
    keyed = await client.create_table("keyed", SCHEMA, primary_key=("id", "day"), **keys)
    await log.create_partition({"day": day})
    await keyed.create_partition({"day": day})
    for _ in range(3):
        await log.append(rows(day))
        await keyed.upsert(rows(day))
    await server.upkeep.tend_states()
    await server.upkeep.save_states()
    return log, keyed


async def begin_scans(server: Server) -> None:
    """Begin a scan of every bucket by key, which nobody goes on with."""
    async with connected(server) as connection:
        for bucket, _ in server.tablets.keyed.all_open():
            asked = pb.ScanKvRequest(call_seq_id=0, batch_size_bytes=2000)
            asked.bucket_scan_req.table_id = bucket.table_id
            asked.bucket_scan_req.partition_id = bucket.partition_id
            asked.bucket_scan_req.bucket_id = bucket.bucket
            answer = await connection.call(asked, pb.ScanKvResponse)
            assert answer.has_more_results


async def test_what_is_dropped_gives_back_space_and_descriptors_at_once(tmp_path):
    async with (
        running(tmp_path, clock=FakeClock(), storage=SMALL) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        log, keyed = await filled(client, server, day="a")
        await filled(client, server, day="b")
        await begin_scans(server)
        gc.disable()
        try:
            await keyed.drop_partition({"day": "a"})
            await log.drop_partition({"day": "a"})
            await until(lambda: not held(tmp_path))
            await client.drop_table("keyed")
            await client.drop_table("log")
            await until(lambda: not held(tmp_path))
        finally:
            gc.enable()

        assert used_bytes(tmp_path / "log") == 0


async def test_retention_and_compaction_give_back_space_and_descriptors_at_once(tmp_path):
    clock = FakeClock()
    async with (
        running(tmp_path, clock=clock, storage=SMALL) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        _, keyed = await filled(client, server, day="a")
        before = used_bytes(tmp_path / "log")
        clock.milliseconds += 8 * 24 * HOUR_MS
        gc.disable()
        try:
            await keyed.delete(rows("a"))
            for number in range(3):
                await keyed.upsert({"id": number, "day": "a", "text": "x"})
                await server.upkeep.tend_states()
                await server.upkeep.save_states()
            await server.upkeep.expire_rows()
            await until(lambda: not held(tmp_path))
        finally:
            gc.enable()

        assert used_bytes(tmp_path / "log") < before / 2
