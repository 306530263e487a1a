"""Opens doors from the command line until a signal closes them; loaded only then."""

import logging
import signal
from importlib import import_module

from headwater.cli.doors.options import DoorsOptions
from headwater.cli.target import DataDirectory, client_settings
from headwater.config.client import settings_with_security
from headwater.doors.conductor import SIGNALS, DoorListener, OpenDoor, check_listener, keep_open
from headwater.doors.storage import DoorCaller, DoorPlace, DoorStorage
from headwater.errors import InvalidOptionError, MissingError
from headwater.runtime.events import configure_events
from headwater.runtime.loops import run

LOG_FORMATS = ("text", "json")
LEASE_S_MIN = 10.0
_PACKAGES = ("starlette", "uvicorn", "pyiceberg")


def run_doors(options: DoorsOptions) -> None:
    """Open the doors that are asked for, until SIGINT or SIGTERM."""
    if options.log_format not in LOG_FORMATS:
        raise InvalidOptionError(f"--log-format must be text or json, not {options.log_format!r}.")
    if options.log_level not in logging.getLevelNamesMapping():
        raise InvalidOptionError(
            f"--log-level must be DEBUG, INFO, WARNING or ERROR, not {options.log_level!r}."
        )
    if options.tail_lease_s < LEASE_S_MIN:
        raise InvalidOptionError(
            f"--tail-lease is {options.tail_lease_s:g} s, which is shorter than queries are.",
            hint=f"Use {LEASE_S_MIN:g} s or more.",
        )
    place = _place(options)
    for port in options.ports:
        listener = _listener(options, port)
        check_listener(listener, insecure=options.insecure, has_users=place.has_users)
    configure_events(level=options.log_level, as_json=options.log_format == "json")
    storage = DoorStorage(place)
    try:
        run(keep_open(_doors(options, storage)))
    finally:
        # Nothing is left to stop: a further signal must not turn a clean end into a failure.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        storage.close()


def _doors(options: DoorsOptions, storage: DoorStorage) -> list[OpenDoor]:
    doors: list[OpenDoor] = []
    if options.iceberg_port is not None:
        doors.append(_iceberg(options, storage))
    return doors


def _iceberg(options: DoorsOptions, storage: DoorStorage) -> OpenDoor:
    assert options.iceberg_port is not None
    try:
        module = import_module("headwater.doors.iceberg.door")
    except ModuleNotFoundError as fault:
        name = (fault.name or "").partition(".")[0]
        if name not in _PACKAGES:
            raise
        raise MissingError(
            f"The Iceberg REST catalog needs the package '{name}', which is not installed.",
            hint="Run: pip install 'headwater[doors,iceberg]'",
        ) from None
    door: OpenDoor = module.IcebergDoor(
        storage,
        _listener(options, options.iceberg_port),
        module.TailLimits(
            fresh_within_s=options.fresh_within_s,
            rows_max=options.tail_rows_max,
            lease_s=options.tail_lease_s,
            directory=options.tail_directory,
        ),
    )
    return door


def _listener(options: DoorsOptions, port: int) -> DoorListener:
    return DoorListener(
        host=options.host, port=port, certificate=options.certificate, key=options.key
    )


def _place(options: DoorsOptions) -> DoorPlace:
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
