"""The console as a door: a port, its certificate, and the application behind it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn

from headwater import errors
from headwater.console.app import ConsoleApp
from headwater.console.facts.access import AuditDesk
from headwater.console.facts.growth import Glances, Growth
from headwater.console.facts.lags import LagHistory
from headwater.console.facts.sql import SqlDesk
from headwater.console.feed import (
    EVERY_S,
    MeasuredServer,
    MetricsFeed,
    OwnMetrics,
    RemoteMetrics,
)
from headwater.console.web import ConsoleRules, ConsoleState
from headwater.doors.conductor import DoorListener, check_listener, listening_socket
from headwater.doors.storage import DoorStorage
from headwater.runtime.clock import SystemClock
from headwater.runtime.tasks import Tasks, aside, repeat
from headwater.runtime.tls import TlsFiles, server_context

STOP_WITHIN_S = 5
STARTED_EVERY_S = 0.01
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


__all__ = ["ConsoleDoor", "OwnMetrics", "RemoteMetrics", "check_door", "rules_for"]


class _Server(uvicorn.Server):
    """Leaves signals to whoever opened the console."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class ConsoleDoor:
    """Serves the console on one port."""

    name = "console"

    def __init__(
        self,
        storage: DoorStorage,
        listener: DoorListener,
        rules: ConsoleRules,
        *,
        measured: MeasuredServer | None = None,
    ) -> None:
        self._clock = SystemClock()
        self._storage = storage
        self._listener = listener
        self._feed = MetricsFeed(measured, self._clock)
        self._desk = SqlDesk(self._clock)
        self._audits = AuditDesk(storage, self._clock)
        state = ConsoleState(
            place=storage.place,
            rules=rules,
            feed=self._feed,
            clock=self._clock,
            growth=Growth(),
            lags=LagHistory(),
            glances=Glances(self._clock),
            desk=self._desk,
            audits=self._audits,
        )
        self._app = ConsoleApp(storage, state)
        self._server: _Server | None = None
        self._socket: socket.socket | None = None
        self._tasks = Tasks()
        self._sampling = Tasks()

    async def start(self) -> str:
        """Listen; returns the address for browsers."""
        listener = self._listener
        config = uvicorn.Config(
            self._app.starlette(),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=STOP_WITHIN_S,
        )
        config.load()
        if listener.certificate is not None:
            files = TlsFiles(certificate=listener.certificate, key=listener.key)
            config.ssl = server_context(files, now_ms=self._clock.now_ms())
        self._socket = listening_socket(listener, option="--port")
        self._server = _Server(config)
        self._tasks.start(self._server.serve(sockets=[self._socket]), name="console")
        sampling = repeat(self._feed.sample, every_s=EVERY_S, clock=self._clock, name="feed")
        self._sampling.start(sampling, name="console feed")
        while not self._server.started and len(self._tasks):
            await self._clock.sleep(STARTED_EVERY_S)
        scheme = "https" if listener.certificate is not None else "http"
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        return f"{scheme}://{host}:{self._socket.getsockname()[1]}"

    async def stop(self) -> None:
        """Let requests that run come to their end, and close the port."""
        await self._sampling.stop()
        if self._server is not None:
            self._server.should_exit = True
            await self._tasks.finish(within_s=STOP_WITHIN_S + 1)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
        await aside(self._desk.close)
        self._audits.close()


def rules_for(listener: DoorListener, *, may_edit: bool, report: Path | None) -> ConsoleRules:
    """Say what a console behind a listener allows, and by which names it is reached."""
    hosts = LOCAL_HOSTS | {listener.host.lower()} if listener.is_local else None
    return ConsoleRules(
        may_edit=may_edit,
        is_encrypted=listener.certificate is not None,
        hosts=hosts,
        report=report,
    )


async def check_door(listener: DoorListener, storage: DoorStorage, *, insecure: bool) -> None:
    """Refuse a console that shows rows to other machines without logins or encryption."""
    has_users = storage.place.has_users
    if has_users and not insecure and not listener.is_local:
        has_users = await aside(_needs_login, storage)
    check_listener(listener, insecure=insecure, has_users=has_users)


def _needs_login(storage: DoorStorage) -> bool:
    try:
        with storage.lent() as client:
            client.list_databases()
    except errors.AuthenticationError:
        return True
    return False
