"""Data directories with tables of all kinds, made by the real server with small files."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.audit.files.walk import audit_files
from headwater.audit.report import Finding, Notes, Severity
from headwater.client.client import AsyncClient
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.storage import PEER, InProcessDialer
from headwater.kv.store import KvSettings
from headwater.lake.lakes import Lakes
from headwater.log.retention import LogSettings
from headwater.runtime.clock import SystemClock
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings

SMALL = StorageSettings(
    LogSettings(segment_bytes_max=2_800, index_interval_bytes=700),
    KvSettings(segment_bytes_max=4_000),
)
ROWS = {"id": "BIGINT", "name": "STRING"}


@asynccontextmanager
async def storage(
    directory: Path, *, deadline_s: float = 60
) -> AsyncIterator[tuple[AsyncClient, Server]]:
    """Open a directory with small segments, and close it in the end."""
    settings = ServerSettings(host="127.0.0.1", port=0)
    server = await Server.start(directory, settings, storage=SMALL, listens=False)
    cluster = Cluster(
        [Address(PEER, 0)],
        Pool(InProcessDialer(server.serve)),
        settings=ClientSettings(deadline_s=deadline_s),
        clock=SystemClock(),
        lakes=Lakes(config={}),
    )
    try:
        await cluster.connect()
        yield AsyncClient(cluster, address=None, directory=directory, on_close=_nothing), server
    finally:
        await server.stop()


async def _nothing() -> None:
    """Leave the server to whoever started it."""


def rows(start: int, end: int) -> list[dict[str, object]]:
    return [{"id": number, "name": f"row {number} " + "x" * 40} for number in range(start, end)]


async def saved(server: Server) -> None:
    """Take a snapshot of every state."""
    for _, keyed in server.tablets.keyed.all_open():
        await keyed.upkeep.snapshot()


async def fill_log(directory: Path, *, batches: int = 12) -> None:
    async with storage(directory) as (client, _):
        table = await client.create_table("events", ROWS, buckets=1)
        for number in range(batches):
            await table.append(rows(number * 10, number * 10 + 10))


async def fill_keyed(directory: Path, *, batches: int = 12, saves: bool = True) -> None:
    async with storage(directory) as (client, server):
        table = await client.create_table("users", ROWS, primary_key="id", buckets=1)
        for number in range(batches):
            await table.upsert(rows(number * 5, number * 5 + 10))
            await table.delete([{"id": number * 5 + 1}])
            if saves and number in (batches // 2, batches - 3):
                await saved(server)


def findings(directory: Path, *, deep: bool = True) -> list[Finding]:
    notes = Notes()
    audit_files(directory, notes, deep=deep)
    return list(notes.findings)


def errors(directory: Path) -> list[Finding]:
    return [each for each in findings(directory) if each.severity is Severity.ERROR]
