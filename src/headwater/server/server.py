"""A running server: a data directory, its tablets, and a listener in front of them."""

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

from headwater.config.server import ServerSettings
from headwater.errors import RequestError
from headwater.metrics.tallies import Tallies
from headwater.runtime.clock import Clock, SystemClock
from headwater.runtime.doubting import BELIEVED_AFTER_S
from headwater.runtime.events import Events, Sparing
from headwater.server.answers import Answers, Memory
from headwater.server.catalog.catalog import Catalog
from headwater.server.connection import Serve
from headwater.server.context import Services
from headwater.server.disk_space import DiskSpace
from headwater.server.dispatch import Dispatcher
from headwater.server.lake.lake import ServerLake
from headwater.server.listener import Listener
from headwater.server.logins import Logins
from headwater.server.metrics_listener import MetricsListener
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
        self.listener = Listener(
            self.serve,
            settings=services.settings,
            clock=services.clock,
            needs_login=services.logins is not None,
        )
        services.answers.unsent = self.listener.unsent_bytes
        services.answers.drop_slowest = self.listener.drop_slowest
        self.upkeep = Upkeep(services, self.listener)
        self.metrics_listener: MetricsListener | None = None

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
        3. bind the port, unless only this process is to be served, and that of the metrics
        4. begin upkeep
        """
        check_exposure(settings, users)
        clock = clock or SystemClock()
        executor = executor or ThreadPoolExecutor(IO_THREADS, thread_name_prefix="headwater-io")
        catalog = Catalog.open(directory, clock=clock, settings=settings)
        logs = directory / "log"
        storage = storage or StorageSettings()
        store = LogStore(logs, disk or LocalDisk(logs, guard=catalog.lock.check), storage)
        tallies = Tallies()
        tablets = Tablets(
            store,
            catalog,
            executor=executor,
            settings=settings,
            clock=clock,
            tally=tallies.writes,
        )
        try:
            await tablets.open_all()
            services = _services(
                directory,
                catalog,
                tablets,
                settings=settings,
                clock=clock,
                users=users,
                tallies=tallies,
            )
            tablets.on_drop = services.scanners.drop
            server = cls(services, executor)
            await server._listen(for_others=listens)
        except BaseException:
            await tablets.close()
            catalog.close()
            executor.shutdown()
            raise
        server.upkeep.start()
        server._tell(directory)
        server._tell_of_clock(is_watched=listens)
        return server

    async def _listen(self, *, for_others: bool) -> None:
        try:
            if for_others:
                await self.listener.start()
            await self._show_metrics()
        except BaseException:
            await self.listener.stop()
            raise

    async def _show_metrics(self) -> None:
        settings = self._services.settings
        if settings.metrics_port is None:
            return
        # Loaded here and not above: most servers live inside a process that nobody scrapes.
        pages = import_module("headwater.server.metrics_pages").watched_pages
        self.metrics_listener = MetricsListener(
            pages(self._services, self.listener),
            host=settings.metrics_host,
            port=settings.metrics_port,
        )
        await self.metrics_listener.start()

    def _tell(self, directory: Path) -> None:
        fields: dict[str, str | int] = {"host": self._services.settings.host, "port": self.port}
        if self.metrics_listener is not None:
            fields["metrics_port"] = self.metrics_listener.port
        _events.info("serving", **fields, directory=str(directory))

    def _tell_of_clock(self, *, is_watched: bool) -> None:
        ahead_ms = self._services.catalog.time.doubted_ms
        if not ahead_ms:
            return
        # A program that opens a directory for a moment is nobody's watch.
        tell = _events.warning if is_watched else _events.info
        tell(
            "clock is far ahead of the last run: nothing is deleted by age for now",
            ahead_s=ahead_ms // 1000,
            believed_after_s=BELIEVED_AFTER_S,
            hint="Nothing is to be done if the server was down that long. If the clock is wrong,"
            " set it right. To delete at once, start with --trust-clock.",
        )

    @property
    def tallies(self) -> Tallies:
        """Return what the server counts, and where its audits are noted."""
        return self._services.tallies

    @property
    def tablets(self) -> Tablets:
        """Return the tablets, for whoever shares the process."""
        return self._services.tablets

    @property
    def port(self) -> int:
        """Return the port that clients reach, or 0 if the server does not listen."""
        return self.listener.port

    async def lost(self) -> None:
        """Wait until the data directory does not belong to this process, and raise why."""
        await self._services.lost.wait()
        self._services.catalog.lock.check()

    async def stop(self) -> None:
        """Answer what was asked, make everything durable, and let go of the directory."""
        _events.info("stopping")
        self._services.stopping.set()
        for wake in tuple(self._services.polls):
            wake()
        self._services.lake.checks.close()
        await self.upkeep.stop()
        if self.metrics_listener is not None:
            await self.metrics_listener.stop()
        await self.listener.stop()
        if self._services.logins is not None:
            self._services.logins.stop()
        await self._services.tablets.close()
        self._services.catalog.close()
        await asyncio.to_thread(self._executor.shutdown)
        _events.info("stopped")


def _services(  # noqa: PLR0913 - one argument per part
    directory: Path,
    catalog: Catalog,
    tablets: Tablets,
    *,
    settings: ServerSettings,
    clock: Clock,
    users: Users | None,
    tallies: Tallies,
) -> Services:
    return Services(
        catalog=catalog,
        tablets=tablets,
        settings=settings,
        clock=clock,
        scanners=Scanners(settings, clock),
        lake=ServerLake(directory, catalog, tablets, settings=settings, clock=clock),
        space=DiskSpace(
            directory,
            free_bytes_min=settings.disk_free_bytes_min,
            clock=clock,
            read_only=catalog.read_only,
        ),
        answers=Answers(
            settings.total_response_bytes_max, Memory(settings.memory_bytes_max, clock), clock
        ),
        refusals=Sparing(clock, lines_max=1),
        logins=None if users is None else Logins(users, clock),
        tallies=tallies,
    )


def check_exposure(settings: ServerSettings, users: Users | None) -> None:
    """Refuse to be reached from other machines without authentication."""
    if settings.insecure:
        return
    if settings.host not in LOOPBACK and not users:
        raise RequestError(
            f"Listening on {settings.host} would let anyone on the network read and write.",
            hint="Give a file of users with --users, or say --insecure if that is what you want.",
        )
    is_shown = settings.metrics_port is not None and not settings.metrics_exposed
    if is_shown and settings.metrics_host not in LOOPBACK:
        raise RequestError(
            f"Metrics on {settings.metrics_host} would tell anyone on the network the names of"
            " tables and how they are used: they ask for no password.",
            hint="Leave out --metrics-host and have a scraper on this machine, or say"
            " --metrics-exposed if the network is one that you trust.",
        )
