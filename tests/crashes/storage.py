"""A whole storage on a disk of the test's choice, with clients in the same process."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.client.client import AsyncClient
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.storage import PEER, InProcessLink
from headwater.kv.store import KvSettings
from headwater.lake.lakes import Lakes
from headwater.log.retention import LogSettings
from headwater.server.connection import Part, Serve
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings
from headwater.store.disk import Disk
from headwater.wire.apis import Api, ApiKey
from tests.clocks import loop_turns
from tests.server.support import FakeClock
from tests.tablet.keyed_bucket import DirectExecutor

SMALL = StorageSettings(
    log=LogSettings(
        segment_bytes_max=1_500, index_interval_bytes=400, checkpoint_interval_bytes=900
    ),
    kv=KvSettings(segment_bytes_max=500),
)
# Whatever fails, nobody waits for long.
PATIENCE = ClientSettings(
    deadline_s=1.5, request_timeout_s=5.0, backoff_first_s=0.1, backoff_max_s=0.2
)
HURRY = replace(PATIENCE, acks=0)
WRITES = (ApiKey.PRODUCE_LOG, ApiKey.PUT_KV)
RESENT_EVERY = 3
STOP_S_MAX = 20


class ImpatientClock:
    """Pass over the time in which somebody sleeps."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def now_ms(self) -> int:
        return round(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped_s

    async def sleep(self, seconds: float) -> None:
        self._skipped_s += seconds
        await loop_turns()


class ResendingLink:
    """Send every third write twice, as a client does that did not hear the first answer."""

    def __init__(self, serve: Serve) -> None:
        self._link = InProcessLink(serve)
        self._writes = 0

    @property
    def is_open(self) -> bool:
        return self._link.is_open

    async def exchange(self, api: Api, parts: Sequence[Part], *, timeout_s: float) -> memoryview:
        answer = await self._link.exchange(api, parts, timeout_s=timeout_s)
        if api.key not in WRITES:
            return answer
        self._writes += 1
        if self._writes % RESENT_EVERY:
            return answer
        return await self._link.exchange(api, parts, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._link.close()


class ResendingDialer:
    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    async def dial(self, host: str, port: int) -> ResendingLink:
        return ResendingLink(self._serve)


@dataclass(frozen=True, slots=True)
class Storage:
    """Hold a server, a client that waits for the disk, and one that does not."""

    server: Server
    client: AsyncClient
    hurried: AsyncClient
    clock: FakeClock


@asynccontextmanager
async def serving(
    directory: Path, disk: Disk, *, clock: FakeClock | None = None
) -> AsyncIterator[Storage]:
    """Serve a directory whose logs and states lie on a disk."""
    clock = clock or FakeClock()
    server = await Server.start(
        directory,
        ServerSettings(port=0),
        clock=clock,
        storage=SMALL,
        disk=disk,
        executor=DirectExecutor(),
        listens=False,
    )
    try:
        async with (
            await _client(server, PATIENCE) as patient,
            await _client(server, HURRY) as hurried,
        ):
            yield Storage(server, patient, hurried, clock)
    finally:
        async with asyncio.timeout(STOP_S_MAX):
            await server.stop()


async def _client(server: Server, settings: ClientSettings) -> AsyncClient:
    cluster = Cluster(
        [Address(PEER, 0)],
        Pool(ResendingDialer(server.serve)),
        settings=settings,
        clock=ImpatientClock(),
        lakes=Lakes(config={}),
    )
    await cluster.connect()
    return AsyncClient(cluster)
