"""A running server: a data directory, its tablets, and a listener in front of them."""

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from headwater.config.server import ServerSettings
from headwater.errors import RequestError
from headwater.runtime.clock import Clock, SystemClock
from headwater.runtime.events import Events
from headwater.server.catalog.catalog import Catalog
from headwater.server.connection import Serve
from headwater.server.context import Services
from headwater.server.dispatch import Dispatcher
from headwater.server.lake.lake import ServerLake
from headwater.server.listener import Listener
from headwater.server.scanners import Scanners
from headwater.server.security import Users
from headwater.server.tablets import LogStore, StorageSettings, Tablets
from headwater.server.upkeep import Upkeep
from headwater.store.disk import Disk
from headwater.store.local import LocalDisk

_events = Events("server")
IO_THREADS = 8
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Server:
    """Serve one data directory."""

    def __init__(self, services: Services, executor: Executor) -> None:
        self._services = services
        self._executor = executor
        # What answers a request, for whoever shares the process and needs no socket.
        self.serve: Serve = Dispatcher(services).serve
        self.listener = Listener(self.serve, settings=services.settings, clock=services.clock)
        self.upkeep = Upkeep(services, self.listener)

    @classmethod
    async def start(  # noqa: PLR0913 - one argument per part that a test may replace
        cls,
        directory: Path,
        settings: ServerSettings,
        *,
        users: Users | None = None,
        clock: Clock | None = None,
        storage: StorageSettings | None = None,
        disk: Disk | None = None,
        executor: Executor | None = None,
        listens: bool = True,
    ) -> "Server":
        """Lock the directory, recover what is in it, and listen.

        1. open the catalog, which locks the directory
        2. recover every log
        3. bind the port, unless only this process is to be served
        4. begin upkeep
        """
        check_exposure(settings, users)
        clock = clock or SystemClock()
        executor = executor or ThreadPoolExecutor(IO_THREADS, thread_name_prefix="headwater-io")
        catalog = Catalog.open(directory, clock=clock, settings=settings)
        logs = directory / "log"
        storage = storage or StorageSettings()
        store = LogStore(logs, disk or LocalDisk(logs), storage)
        tablets = Tablets(store, catalog, executor=executor, settings=settings, clock=clock)
        try:
            await tablets.open_all()
            scanners = Scanners(settings, clock)
            lake = ServerLake(directory, catalog, tablets, settings=settings, clock=clock)
            services = Services(catalog, tablets, settings, clock, scanners, lake, users)
            server = cls(services, executor)
            if listens:
                await server.listener.start()
        except BaseException:
            await tablets.close()
            catalog.close()
            executor.shutdown()
            raise
        server.upkeep.start()
        _events.info("serving", host=settings.host, port=server.port, directory=str(directory))
        return server

    @property
    def tablets(self) -> Tablets:
        """Return the tablets, for whoever shares the process."""
        return self._services.tablets

    @property
    def port(self) -> int:
        """Return the port that clients reach, or 0 if the server does not listen."""
        return self.listener.port

    async def stop(self) -> None:
        """Answer what was asked, make everything durable, and let go of the directory."""
        _events.info("stopping")
        self._services.stopping.set()
        for wake in tuple(self._services.polls):
            wake()
        await self.upkeep.stop()
        await self.listener.stop()
        await self._services.tablets.close()
        self._services.catalog.close()
        await asyncio.to_thread(self._executor.shutdown)
        _events.info("stopped")


def check_exposure(settings: ServerSettings, users: Users | None) -> None:
    """Refuse to be reached from other machines without authentication."""
    if settings.host in LOOPBACK or users or settings.insecure:
        return
    raise RequestError(
        f"Listening on {settings.host} would let anyone on the network read and write.",
        hint="Give a file of users with --users, or say --insecure if that is what you want.",
    )
