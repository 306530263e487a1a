"""Opening a data directory inside the caller's process."""

from collections.abc import Mapping
from pathlib import Path

from headwater.client.client import AsyncClient
from headwater.client.cluster import Cluster
from headwater.client.pool import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.link import PEER, InProcessDialer
from headwater.errors import RequestError
from headwater.lake.lakes import Lakes
from headwater.runtime.clock import SystemClock
from headwater.server.server import Server

LOOPBACK = "127.0.0.1"


async def open_storage(
    directory: str | Path,
    *,
    listen: bool = False,
    port: int = 0,
    settings: ClientSettings | None = None,
    server_settings: ServerSettings | None = None,
    lake: Mapping[str, str] | None = None,
) -> AsyncClient:
    """Open a directory and return a client of it; closing the client closes the storage.

    The storage lives on the event loop of the caller. With `listen` other processes of this
    machine can reach it at the client's `address` as long as it is open. `lake` holds options of
    the lake's catalog that stand above those of the storage.
    """
    path = _place(directory)
    server = await Server.start(
        path,
        server_settings or ServerSettings(host=LOOPBACK, port=port),
        listens=listen,
    )
    try:
        cluster = Cluster(
            [Address(PEER, 0)],
            Pool(InProcessDialer(server.serve)),
            settings=settings or ClientSettings(),
            clock=SystemClock(),
            lakes=Lakes(config=lake or {}),
        )
        await cluster.connect()
    except BaseException:
        await server.stop()
        raise
    address = f"{LOOPBACK}:{server.port}" if listen else None
    return AsyncClient(cluster, address=address, directory=path, on_close=server.stop)


def _place(directory: str | Path) -> Path:
    host, _, port = directory.rpartition(":") if isinstance(directory, str) else ("", "", "")
    if host and port.isdigit() and "/" not in host and not Path(directory).exists():
        raise RequestError(
            f"{directory} looks like the address of a server, not like a directory.",
            hint=f"Use headwater.connect({str(directory)!r}); or write ./{directory}.",
        )
    return Path(directory).expanduser()
