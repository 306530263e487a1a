"""Opens the console from the command line, alone or beside a server; loaded only then."""

import logging
import signal
import webbrowser
from importlib import import_module
from pathlib import Path
from types import ModuleType

from headwater.audit.report import REPORT_NAME
from headwater.cli.doors.console import ConsoleOptions
from headwater.cli.target import DataDirectory, client_settings
from headwater.config.client import settings_with_security
from headwater.config.server import ServerSettings
from headwater.doors.conductor import SIGNALS, DoorListener, OpenDoor, keep_open
from headwater.doors.storage import DoorCaller, DoorPlace, DoorStorage
from headwater.errors import InvalidOptionError, MissingError
from headwater.runtime.events import Events, configure_events
from headwater.runtime.loops import run
from headwater.server.server import Server

LOG_FORMATS = ("text", "json")
_PACKAGES = ("jinja2", "starlette", "uvicorn")
_events = Events("console")


def run_console(options: ConsoleOptions) -> None:
    """Show a storage until SIGINT or SIGTERM."""
    if options.log_format not in LOG_FORMATS:
        raise InvalidOptionError(f"--log-format must be text or json, not {options.log_format!r}.")
    if options.log_level not in logging.getLevelNamesMapping():
        raise InvalidOptionError(
            f"--log-level must be DEBUG, INFO, WARNING or ERROR, not {options.log_level!r}."
        )
    module = _console()
    configure_events(level=options.log_level, as_json=options.log_format == "json")
    storage = DoorStorage(_place(options))
    try:
        run(_keep_open(options, storage, module))
    finally:
        # Nothing is left to stop: a further signal must not turn a clean end into a failure.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        storage.close()


async def _keep_open(options: ConsoleOptions, storage: DoorStorage, module: ModuleType) -> None:
    listener = DoorListener(
        host=options.host, port=options.port, certificate=options.certificate, key=options.key
    )
    await module.check_door(listener, storage, insecure=options.insecure)
    target = options.target
    report = target.path / REPORT_NAME if isinstance(target, DataDirectory) else None
    door = module.ConsoleDoor(
        storage,
        listener,
        module.rules_for(listener, may_edit=options.may_edit, report=report),
        measured=None if options.metrics is None else module.RemoteMetrics(options.metrics),
    )
    await keep_open([_Shown(door) if options.opens else door])


class _Shown:
    """A door that opens a browser once it listens."""

    def __init__(self, door: OpenDoor) -> None:
        self._door = door
        self.name = door.name

    async def start(self) -> str:
        address = await self._door.start()
        if not webbrowser.open(address):
            _events.warning("no browser", hint=f"Open {address} in one.")
        return address

    async def stop(self) -> None:
        await self._door.stop()


def _console() -> ModuleType:
    try:
        return import_module("headwater.console.door")
    except ModuleNotFoundError as fault:
        name = (fault.name or "").partition(".")[0]
        if name not in _PACKAGES:
            raise
        raise MissingError(
            f"The console needs the package '{name}', which is not installed.",
            hint="Run: pip install 'headwater[doors]'",
        ) from None


def _place(options: ConsoleOptions) -> DoorPlace:
    settings = client_settings(options.timeout_s, waits=options.waits)
    login = options.credentials
    if login is not None:
        settings = settings_with_security(settings, login.security)
    target = options.target
    return DoorPlace(
        at=target.path if isinstance(target, DataDirectory) else target.addresses,
        own=DoorCaller() if login is None else DoorCaller(user=login.user, password=login.password),
        settings=settings,
        lake=options.lake,
    )


# Beside a server: `headwater serve --console-port`.


class ServerConsole:
    """The console of a server in this process, which its clients reach as all others do."""

    def __init__(self, server: Server, settings: ServerSettings, directory: Path) -> None:
        self._server = server
        self._settings = settings
        self._directory = directory
        self._door: OpenDoor | None = None
        self._storage: DoorStorage | None = None

    async def open(self, listener: DoorListener, *, may_edit: bool, insecure: bool) -> None:
        """Open it once the server listens."""
        settings = self._settings
        if settings.tls_certificate_file and settings.tls_port is None:
            raise InvalidOptionError(
                "The console would need a port of this server without TLS, on this machine.",
                hint="Pass --tls-port as well, so that --port speaks without; or run "
                "'headwater console --tls --tls-ca-file ... --at HOST:PORT' beside it.",
            )
        module = _console()
        host = "127.0.0.1" if settings.host in ("0.0.0.0", "") else settings.host  # noqa: S104
        storage = DoorStorage(DoorPlace(at=(f"{host}:{self._server.port}",)))
        self._storage = storage
        await module.check_door(listener, storage, insecure=insecure)
        door: OpenDoor = module.ConsoleDoor(
            storage,
            listener,
            module.rules_for(listener, may_edit=may_edit, report=self._directory / REPORT_NAME),
            measured=module.OwnMetrics(self._server),
        )
        self._door = door
        _events.info("open", door=door.name, address=await door.start())

    async def close(self) -> None:
        """Close it before the server stops."""
        if self._door is not None:
            await self._door.stop()
        if self._storage is not None:
            self._storage.close()
