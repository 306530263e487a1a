"""Runs a server from the command line until a signal ends it; loaded only then."""

import asyncio
import logging
import resource
import shlex
import signal
import stat
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Protocol

from headwater.cli.command import named_values, secret_values
from headwater.cli.serve import ServeOptions
from headwater.config.server import ServerSettings, limit_named, limits_for, settings_with
from headwater.config.values import DURATION, MEMORY
from headwater.doors.conductor import DoorListener
from headwater.errors import InvalidOptionError, StorageError
from headwater.runtime.events import Events, configure_events
from headwater.runtime.loops import keep_from_collections, run
from headwater.runtime.memory import give_back_early, memory_there_is
from headwater.runtime.tasks import Tasks
from headwater.server.logins import Users
from headwater.server.quotas import QuotaFile
from headwater.server.server import Server

LOG_FORMATS = ("text", "json")
FILES_MAX = 1 << 20
SMALL_BYTES = 2 * 1024**3
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_events = Events("server")


def run_server(options: ServeOptions) -> None:
    """Serve until SIGINT or SIGTERM."""
    if options.log_format not in LOG_FORMATS:
        raise InvalidOptionError(f"--log-format must be text or json, not {options.log_format!r}.")
    if options.log_level not in logging.getLevelNamesMapping():
        raise InvalidOptionError(
            f"--log-level must be DEBUG, INFO, WARNING or ERROR, not {options.log_level!r}."
        )
    configure_events(level=options.log_level, as_json=options.log_format == "json")
    _allow_files()
    _tell_of_readers(options.directory)
    _restore_first(options)
    run(_serve(options))


def _allow_files() -> None:
    """Raise the limit of open files as far as the system allows: every bucket needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft < wanted:
        with suppress(ValueError, OSError):  # Some systems have limits that they do not report.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _tell_of_readers(directory: Path) -> None:
    """Warn of a directory that every user can read, as older versions created them."""
    with suppress(OSError):  # A directory that does not exist yet is created for its owner only.
        if directory.stat().st_mode & stat.S_IRWXO:
            _events.warning(
                "directory is readable by all users of this machine",
                directory=str(directory),
                hint=f"Run: chmod 700 {shlex.quote(str(directory))}",
            )


async def _serve(options: ServeOptions) -> None:
    users = None if options.users is None else Users.load(options.users)
    if users is not None and not len(users):
        raise InvalidOptionError(
            f"{options.users} contains no users.",
            hint=f"Add one with: headwater user add {options.users} NAME",
        )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Before the start: whoever sees the server running may stop it at once.
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    settings, audit_every_s = _settings(options), _audit_every_s(options)
    quotas = None if options.quotas is None else QuotaFile(options.quotas)
    server = await Server.start(options.directory, settings, users=users, quotas=quotas)
    console = await _console(options, server, settings)
    keep_from_collections()  # Tables and buckets: thousands of objects.
    schedule = None
    if audit_every_s is not None:
        audits = import_module("headwater.audit.schedule")  # most servers have none
        plan = audits.AuditPlan(every_s=audit_every_s, is_deep=options.audit_deep)
        schedule = audits.AuditSchedule(server, options.directory, settings=settings, plan=plan)
        schedule.start()
    watching, faults = Tasks(), list[StorageError]()
    watching.start(_stop_if_lost(server, stop, faults), name="directory")
    await stop.wait()
    await watching.stop()
    if schedule is not None:
        await schedule.stop()
    if console is not None:
        await console.close()
    await server.stop()
    # Nothing is left to stop, so a further signal must not turn a clean end into a failure.
    for number in SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    if faults:
        raise faults[0]


class _Console(Protocol):
    """The console beside the server."""

    async def open(self, listener: DoorListener, *, may_edit: bool, insecure: bool) -> None: ...

    async def close(self) -> None: ...


async def _console(
    options: ServeOptions, server: Server, settings: ServerSettings
) -> _Console | None:
    """Open the console if it is asked for; a server whose console cannot be opened stops."""
    wanted = options.console
    if wanted.port is None:
        return None
    # Imported here because most servers have none.
    module = import_module("headwater.cli.doors.console_run")
    console: _Console = module.ServerConsole(server, settings, options.directory)
    certificate = settings.tls_certificate_file
    listener = DoorListener(
        host=wanted.host,
        port=wanted.port,
        certificate=Path(certificate) if certificate else None,
        key=Path(settings.tls_key_file) if certificate else None,
    )
    try:
        await console.open(listener, may_edit=wanted.may_edit, insecure=options.insecure)
    except BaseException:
        await console.close()
        await server.stop()
        raise
    return console


async def _stop_if_lost(server: Server, stop: asyncio.Event, faults: list[StorageError]) -> None:
    """Stop the server once another process has taken its directory, and record why."""
    try:
        await server.lost()
    except StorageError as fault:
        faults.append(fault)
    stop.set()


def _audit_every_s(options: ServeOptions) -> float | None:
    if options.audit_every is None:
        if options.audit_deep:
            raise InvalidOptionError("--audit-deep needs --audit-every, such as '1 h'.")
        return None
    return _seconds("--audit-every", options.audit_every)


def _seconds(option: str, text: str) -> float:
    milliseconds = DURATION.read(text)
    if not milliseconds:
        raise InvalidOptionError(
            f"{text!r} is not a valid value of {option}.",
            hint="Use a duration such as '1 s', '10 min' or '1 h'.",
        )
    return milliseconds / 1000


def _lag_s_max(text: str | None) -> int:
    return 0 if text is None else max(round(_seconds("--remote-lag-max", text)), 1)


def _restore_first(options: ServeOptions) -> None:
    """Restore the directory from a remote storage, unless it has a storage already."""
    if not options.remote.restore_from:
        if options.remote.options and not options.remote.address:
            raise InvalidOptionError("--remote-option needs --remote or --restore-from.")
        return
    if (options.directory / "catalog.sqlite").exists():
        _events.info("nothing to restore: the directory has a storage", path=str(options.directory))
        return
    run = import_module("headwater.cli.remote.run")  # most servers restore nothing
    given = _remote_options(options)
    told = run.run_restore(
        options.remote.restore_from, options.directory, options=given, until=None, progress=_silent
    )
    _events.info("restored", told=" ".join(told[:2]))


def _remote_options(options: ServeOptions) -> dict[str, str]:
    return secret_values(options.remote.options, what="remote option")


def _silent(_done: int, _total: int) -> None:
    pass


def _limits(options: ServeOptions) -> dict[str, int]:
    """Work out the limits that fit into memory, and those that the operator sets."""
    memory = memory_there_is() if options.memory is None else MEMORY.read(options.memory)
    if options.memory is not None and not memory:
        raise InvalidOptionError(
            f"{options.memory!r} is not a valid value of --memory.",
            hint=f"Expected {MEMORY.expected}.",
        )
    limits = {} if memory is None else limits_for(memory)
    if memory is not None and memory < SMALL_BYTES:
        give_back_early()
    given = named_values(options.limits, what="limit")
    return limits | {name: limit_named(name, value) for name, value in given.items()}


def _settings(options: ServeOptions) -> ServerSettings:
    host, _, port = options.advertise.rpartition(":")
    if options.advertise and not (host and port.isdigit()):
        raise InvalidOptionError(f"--advertise must be HOST:PORT, not {options.advertise!r}.")
    settings = ServerSettings(
        host=options.host,
        port=options.port,
        insecure=options.insecure,
        trust_clock=options.trust_clock,
        lake_trusted_tierers=options.trust_tierers,
        datalake_format=options.datalake_format,
        lake_properties=secret_values(options.lake, what="lake property"),
        metrics_host=options.metrics_host,
        metrics_port=options.metrics_port,
        metrics_exposed=options.metrics_exposed,
        remote_data_dir=options.remote.address,
        remote_options=_remote_options(options) if options.remote.address else {},
        remote_sync_interval_s=_seconds("--remote-interval", options.remote.interval),
        remote_history_s=_seconds("--remote-history", options.remote.history),
        remote_lag_s_max=_lag_s_max(options.remote.lag_max),
        advertised_host=host,
        advertised_port=int(port or 0),
        **options.security,  # type: ignore[arg-type]
    )
    return settings_with(settings, _limits(options))
