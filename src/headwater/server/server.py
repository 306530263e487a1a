"""A running server: a data directory, its tablets, and a listener in front of them."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

from headwater.config.quotas import default_quota
from headwater.config.server import ServerSettings
from headwater.config.spellings import without_effect
from headwater.errors import InvalidOptionError, RequestError
from headwater.metrics.tallies import Tallies
from headwater.runtime.clock import Clock, SystemClock
from headwater.runtime.events import Events, Sparing
from headwater.runtime.jumps import BELIEVED_AFTER_S
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.connection import Serve
from headwater.server.context import Services
from headwater.server.disk_space import DiskSpace
from headwater.server.dispatch import Dispatcher
from headwater.server.lake import ServerLake
from headwater.server.listener import Listener
from headwater.server.logins import Logins, Users
from headwater.server.memory import Answers, Memory
from headwater.server.metrics_listener import MetricsListener, Page
from headwater.server.permissions.authorizer import authorizer_of
from headwater.server.permissions.trail import trail_of
from headwater.server.quotas import QuotaFile, Quotas
from headwater.server.readers import Scanners
from headwater.server.remote.copy import RemoteCopy, ShippedRows
from headwater.server.security.tls import Certificates
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
        # Answers requests of clients in the same process that need no socket.
        self.dispatcher = Dispatcher(services)
        self.serve: Serve = self.dispatcher.serve
        self.listener = Listener(
            self.serve,
            settings=services.settings,
            clock=services.clock,
            needs_login=services.logins is not None,
            serve_now=self.dispatcher.serve_now,
            quotas=services.quotas,
            certificates=services.certificates,
            trail=services.trail,
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
        quotas: QuotaFile | None = None,
        clock: Clock | None = None,
        storage: StorageSettings | None = None,
        disk: Disk | None = None,
        executor: Executor | None = None,
        listens: bool = True,
    ) -> "Server":
        """Lock the directory, recover what is in it, and listen.

        1. open the catalog, which locks the directory  2. recover every log
        3. take the remote storage  4. bind the ports that are wanted  5. start upkeep
        """
        check_exposure(settings, users)
        clock = clock or SystemClock()
        executor = executor or ThreadPoolExecutor(IO_THREADS, thread_name_prefix="headwater-io")
        limits = _quotas(settings, clock, quotas)
        catalog = _catalog(directory, clock, settings, limits)
        store = _log_store(directory, catalog, disk=disk, settings=storage)
        tallies, scanners = Tallies(), Scanners(settings, clock)
        memory, shipped = Memory(settings.memory_bytes_max, clock), ShippedRows()
        tablets = Tablets(
            store,
            catalog,
            executor=executor,
            settings=settings,
            clock=clock,
            tally=tallies.writes,
            on_drop=scanners.drop,
            index_room=memory.check_index,
            when_shipped=shipped.when_shipped if settings.remote_data_dir else None,
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
                quotas=limits,
                tallies=tallies,
                scanners=scanners,
                memory=memory,
                remote=_remote(shipped, catalog, tablets, store, settings=settings, clock=clock),
            )
            server = cls(services, executor)
            await server._listen(for_others=listens)
        except BaseException:
            await _give_up(tablets, catalog, executor)
            raise
        server.upkeep.start()
        server._tell(directory, is_watched=listens)
        return server

    async def _listen(self, *, for_others: bool) -> None:
        remote = self._services.remote
        try:
            if remote is not None:
                await remote.start(self._services.lost.set)
            if for_others:
                await self.listener.start()
            await self._show_metrics()
        except BaseException:
            if remote is not None:
                remote.give_up()
            await self.listener.stop()
            raise
        if self._services.trail is not None:
            self._services.trail.start()

    async def _show_metrics(self) -> None:
        settings = self._services.settings
        if settings.metrics_port is None:
            return
        self.metrics_listener = MetricsListener(
            self.watched_pages(),
            host=settings.metrics_host,
            port=settings.metrics_port,
            clock=self._services.clock,
            certificates=self._services.certificates if settings.metrics_tls else None,
        )
        await self.metrics_listener.start()

    def _tell(self, directory: Path, *, is_watched: bool) -> None:
        fields: dict[str, str | int] = {"host": self._services.settings.host, "port": self.port}
        if self.listener.tls_port:
            fields["tls_port"] = self.listener.tls_port
        if self.metrics_listener is not None:
            fields["metrics_port"] = self.metrics_listener.port
        _events.info("serving", **fields, directory=str(directory))
        self._tell_of_clock(is_watched=is_watched)
        self._tell_of_options(is_watched=is_watched)

    def _tell_of_clock(self, *, is_watched: bool) -> None:
        ahead_ms = self._services.catalog.time.doubted_ms
        if not ahead_ms:
            return
        # A program that opens a directory for a moment is not watched.
        tell = _events.warning if is_watched else _events.info
        tell(
            "clock is far ahead of the last run: nothing is deleted by age for now",
            ahead_s=ahead_ms // 1000,
            believed_after_s=BELIEVED_AFTER_S,
            hint="If the server was down that long, there is nothing to do. If the clock is "
            "wrong, correct it. To delete at once, start with --trust-clock.",
        )

    def _tell_of_options(self, *, is_watched: bool) -> None:
        """Name options that earlier versions kept although nothing follows them."""
        tell = _events.warning if is_watched else _events.info
        for table in self._services.catalog.tables.all():
            held = without_effect(table.descriptor)
            if names := [name for name in held if name in table.descriptor.custom_properties]:
                tell(
                    "options without effect",
                    table=str(table.path),
                    options=", ".join(names),
                    hint="'headwater table describe' says what to use; set that, or reset them.",
                )

    def watched_pages(self) -> Mapping[str, Callable[[], Page]]:
        """Return the pages of metrics and health by their paths, to be made on this loop."""
        # Imported here because most servers are embedded and nobody watches them.
        module = import_module("headwater.server.metrics")
        pages: Mapping[str, Callable[[], Page]] = module.watched_pages(
            self._services, self.listener
        )
        return pages

    @property
    def tallies(self) -> Tallies:
        """The counts of the server, and the outcome of its audits."""
        return self._services.tallies

    @property
    def tablets(self) -> Tablets:
        """The tablets, for others in the same process."""
        return self._services.tablets

    @property
    def port(self) -> int:
        """The port that clients connect to, or 0 if the server does not listen."""
        return self.listener.port

    @property
    def tls_port(self) -> int:
        """The port that clients connect to with TLS, or 0 if there is none."""
        return self.listener.tls_port

    async def lost(self) -> None:
        """Wait until this process has lost the data directory, and raise why."""
        await self._services.lost.wait()
        self._services.catalog.lock.check()

    async def stop(self) -> None:
        """Finish running requests, make everything durable, and release the directory."""
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
        if self._services.trail is not None:
            await self._services.trail.stop()
        if self._services.remote is not None:
            await self._services.remote.stop()
        await self._services.tablets.close()
        self._services.catalog.close()
        await asyncio.to_thread(self._executor.shutdown)
        _events.info("stopped")


def _log_store(
    directory: Path, catalog: ServerCatalog, *, disk: Disk | None, settings: StorageSettings | None
) -> LogStore:
    logs = directory / "log"
    guarded = disk or LocalDisk(logs, guard=catalog.lock.check)
    return LogStore(logs, guarded, settings or StorageSettings())


def _services(  # noqa: PLR0913 - one argument per part
    directory: Path,
    catalog: ServerCatalog,
    tablets: Tablets,
    *,
    settings: ServerSettings,
    clock: Clock,
    users: Users | None,
    quotas: Quotas | None,
    tallies: Tallies,
    scanners: Scanners,
    memory: Memory,
    remote: RemoteCopy | None,
) -> Services:
    logins = _logins(catalog, settings=settings, clock=clock, users=users)
    return Services(
        catalog=catalog,
        tablets=tablets,
        settings=settings,
        clock=clock,
        scanners=scanners,
        lake=ServerLake(directory, catalog, tablets, settings=settings, clock=clock),
        space=DiskSpace(
            directory,
            free_bytes_min=settings.disk_free_bytes_min,
            clock=clock,
            read_only=catalog.read_only,
        ),
        answers=Answers(settings.total_response_bytes_max, memory, clock),
        refusals=Sparing(clock, lines_max=1),
        logins=logins,
        certificates=Certificates(settings, clock) if settings.tls_certificate_file else None,
        quotas=quotas,
        authorizer=authorizer_of(settings, catalog),
        trail=trail_of(settings, catalog, tablets, clock=clock, has_logins=logins is not None),
        tallies=tallies,
        remote=remote,
    )


def _remote(
    shipped: ShippedRows,
    catalog: ServerCatalog,
    tablets: Tablets,
    store: LogStore,
    *,
    settings: ServerSettings,
    clock: Clock,
) -> RemoteCopy | None:
    if not settings.remote_data_dir:
        return None
    if catalog.read_only:
        _events.warning("nothing is shipped: the storage is read-only")
        return None
    disk = store.disk
    return RemoteCopy(shipped, catalog, tablets, disk=disk, settings=settings, clock=clock)


async def _give_up(tablets: Tablets, catalog: ServerCatalog, executor: Executor) -> None:
    await tablets.close()
    catalog.close()
    executor.shutdown()


def _catalog(
    directory: Path, clock: Clock, settings: ServerSettings, quotas: Quotas | None
) -> ServerCatalog:
    check = None if quotas is None else quotas.check_created
    return ServerCatalog.open(directory, clock=clock, settings=settings, check_created=check)


def _quotas(settings: ServerSettings, clock: Clock, file: QuotaFile | None) -> Quotas | None:
    default = default_quota(settings)
    if default.is_unlimited and file is None:
        return None
    return Quotas(default, clock, throttle_s_max=settings.throttle_s_max, file=file)


def _logins(
    catalog: ServerCatalog, *, settings: ServerSettings, clock: Clock, users: Users | None
) -> Logins | None:
    """Ask for a login as soon as there is any way to log in."""
    tokens = None
    if settings.token_keys:
        # Imported here because most servers check no tokens, and their library takes a while.
        tokens = import_module("headwater.server.tokens").Tokens(settings, clock)
        tokens.load()
    if users is None and tokens is None and not settings.tls_client_ca_file:
        if settings.mechanisms:
            raise InvalidOptionError("'mechanisms' needs users or 'token_keys'.")
        return None
    return Logins(
        users or Users({}),
        clock,
        mechanisms=settings.mechanism_names,
        tokens=tokens,
        secret=catalog.login_secret(),
    )


def check_exposure(settings: ServerSettings, users: Users | None) -> None:
    """Refuse to be reachable from other machines without authentication and encryption.

    Permissions are refused where nobody can log in.
    """
    has_logins = bool(users) or bool(settings.token_keys) or bool(settings.tls_client_ca_file)
    if settings.authorizer_enabled and not has_logins:
        raise RequestError(
            "Permissions are those of users, and nobody can log in to this server.",
            hint="Pass a file of users with --users, --token-keys, or --tls-client-ca.",
        )
    if settings.insecure:
        return
    for host, is_encrypted in settings.exposed_hosts:
        if host in LOOPBACK:
            continue
        if not has_logins:
            raise RequestError(
                f"Listening on {host} would let anyone on the network read and write.",
                hint="Pass a file of users with --users, or --insecure if that is what you want.",
            )
        if not is_encrypted:
            raise RequestError(
                f"Listening on {host} without TLS would show passwords and rows to anyone on the "
                "way.",
                hint="Pass --tls-certificate and --tls-key, or --insecure if you trust the "
                "network. With --tls-port, leave --host on this machine and set --tls-host.",
            )
    is_shown = settings.metrics_port is not None and not settings.metrics_exposed
    if is_shown and settings.metrics_host not in LOOPBACK:
        raise RequestError(
            f"Metrics on {settings.metrics_host} would show anyone on the network the names of "
            "tables and how they are used, without a password.",
            hint="Leave out --metrics-host and run a scraper on this machine, or pass "
            "--metrics-exposed if you trust the network.",
        )
