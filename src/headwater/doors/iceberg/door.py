"""The Iceberg REST catalog as a door: a port, its certificate, and the application behind it."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn

from headwater.doors.conductor import DoorListener, listening_socket
from headwater.doors.iceberg.app import IcebergCatalogApp
from headwater.doors.iceberg.held import TailLimits
from headwater.doors.iceberg.loads import HotTables
from headwater.doors.iceberg.origins import OriginPlaces
from headwater.doors.storage import DoorStorage
from headwater.errors import HeadwaterError
from headwater.lake.lakes import Lakes
from headwater.runtime.clock import SystemClock
from headwater.runtime.events import Events
from headwater.runtime.tasks import Tasks, aside, repeat
from headwater.runtime.tls import TlsFiles, server_context

STOP_WITHIN_S = 10
_events = Events("doors.iceberg")
STARTED_EVERY_S = 0.01

__all__ = ["IcebergDoor", "TailLimits"]


class _Server(uvicorn.Server):
    """Leaves signals to the conductor, who has other doors to close as well."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class IcebergDoor:
    """Serves the catalog on one port."""

    name = "iceberg"

    def __init__(self, storage: DoorStorage, listener: DoorListener, limits: TailLimits) -> None:
        self._clock = SystemClock()
        self._listener = listener
        self._storage = storage
        self._tables = HotTables(limits, self._clock, _places(storage, limits))
        self._app = IcebergCatalogApp(storage, self._tables, self._clock)
        self._server: _Server | None = None
        self._socket: socket.socket | None = None
        self._tasks = Tasks()
        self._upkeep = Tasks()

    async def start(self) -> str:
        """Listen; returns the address that clients of the catalog are given."""
        listener = self._listener
        config = uvicorn.Config(
            self._app.starlette(),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=STOP_WITHIN_S,
        )
        config.load()
        if listener.certificate is not None:
            files = TlsFiles(certificate=listener.certificate, key=listener.key)
            config.ssl = server_context(files, now_ms=self._clock.now_ms())
        self._socket = listening_socket(listener, option="--iceberg-port")
        self._server = _Server(config)
        self._tasks.start(self._server.serve(sockets=[self._socket]), name="iceberg door")
        while not self._server.started and len(self._tasks):
            await self._clock.sleep(STARTED_EVERY_S)
        self._upkeep.start(
            repeat(
                self._keep, every_s=self._tables.upkeep_every_s, clock=self._clock, name="tails"
            ),
            name="iceberg tails",
        )
        self._upkeep.start(aside(self._clean), name="left-over tails")
        scheme = "https" if listener.certificate is not None else "http"
        return f"{scheme}://{listener.host}:{self._socket.getsockname()[1]}"

    def _clean(self) -> None:
        """Remove what a door left that was killed, as far as the door itself may look."""
        try:
            with self._storage.lent() as client:
                self._tables.clean(client)
        except HeadwaterError as fault:
            # Each place is looked at when a caller first loads a table there.
            _events.info("left-over tails not looked for", reason=str(fault))

    async def _keep(self) -> None:
        await aside(self._tables.upkeep)

    async def stop(self) -> None:
        """Let requests that run come to their end, and remove what nobody can read any more."""
        if self._server is not None:
            self._server.should_exit = True
            await self._tasks.finish(within_s=STOP_WITHIN_S + 1)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
        self._tables.stop_cleaning()
        await self._upkeep.stop()
        with suppress(asyncio.CancelledError):
            await aside(self._tables.close)


def _places(storage: DoorStorage, limits: TailLimits) -> OriginPlaces:
    """Return where tables are: rows of no lake go beside the lakes of a data directory."""
    directory = limits.directory
    if directory is None and isinstance(storage.place.at, Path):
        directory = storage.place.at / "lake" / "iceberg"
    return OriginPlaces(
        lakes=Lakes(config=storage.place.lake),
        directory=None if directory is None else str(directory.absolute()),
    )
