"""Storages in this process whose servers have settings that no user can give."""

from contextlib import asynccontextmanager

from headwater.client.client import AsyncClient
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.storage import PEER, InProcessDialer
from headwater.kv.store import KvSettings
from headwater.log.retention import LogSettings
from headwater.runtime.clock import SystemClock
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings

# So far back that a server has forgotten all its writers when it starts again.
FORGETTING = LogSettings(writer_expiration_ms=-60_000)


@asynccontextmanager
async def storing(directory, log):
    """Open a directory with these settings of its logs."""
    storage = StorageSettings(log, KvSettings())
    server = await Server.start(
        directory, ServerSettings(host="127.0.0.1", port=0), listens=False, storage=storage
    )
    cluster = Cluster(
        [Address(PEER, 0)],
        Pool(InProcessDialer(server.serve)),
        settings=ClientSettings(backoff_first_s=0.001),
        clock=SystemClock(),
    )
    await cluster.connect()
    async with AsyncClient(cluster, on_close=server.stop) as client:
        yield client
