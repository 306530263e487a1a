"""Servers and storages for tests, each on a free port and closed together."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Protocol

import headwater
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.errors import HeadwaterError
from headwater.runtime.loops import LoopThread
from headwater.server.server import Server

_HOST = "127.0.0.1"


class RunningServer:
    """Serve a directory until stopped; clients that it connected are closed then."""

    def __init__(self, directory: str | Path, *, settings: ServerSettings | None = None) -> None:
        self.directory = Path(directory)
        self._settings = settings or ServerSettings(host=_HOST, port=0)
        self._clients: list[headwater.Client] = []
        self._loop = LoopThread("headwater-testing")
        self._server: Server | None = None
        try:
            self._start()
        except BaseException:
            self._loop.close()
            raise

    @property
    def address(self) -> str:
        """Where to connect, as host:port; it stays the same over restarts."""
        return f"{self._settings.host}:{self._settings.port}"

    def connect(self, *, settings: ClientSettings | None = None) -> headwater.Client:
        """Connect a client, which is closed when the server stops at the latest."""
        client = headwater.connect(self.address, settings=settings)
        self._clients.append(client)
        return client

    def restart(self) -> None:
        """Stop and start again at the same address, while clients stay connected."""
        self._stop()
        self._start()

    def stop(self) -> None:
        """Close the clients, make everything durable, and release the directory."""
        if not self._loop.is_open:
            return
        try:
            while self._clients:
                # A client with rows that the server rejects must not keep it alive.
                with suppress(HeadwaterError):
                    self._clients.pop().close()
            self._stop()
        finally:
            self._loop.close()

    def _start(self) -> None:
        self._server = self._loop.run(Server.start(self.directory, self._settings))
        self._settings = replace(self._settings, port=self._server.port)

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            self._loop.run(server.stop())


@contextmanager
def serving(
    directory: str | Path, *, settings: ServerSettings | None = None
) -> Iterator[RunningServer]:
    """Serve a directory inside the context."""
    server = RunningServer(directory, settings=settings)
    try:
        yield server
    finally:
        server.stop()


class StorageFactory(Protocol):
    """Open storages."""

    def __call__(self, name: str | None = None) -> headwater.Client:
        """Open a new storage, or the one with this name."""


class ServerFactory(Protocol):
    """Start servers."""

    def __call__(self, name: str | None = None) -> RunningServer:
        """Start a new server, or one on the directory with this name."""


@contextmanager
def storages(directory: Path) -> Iterator[StorageFactory]:
    """Yield a factory of storages below a directory: a new one for each call, or by name."""
    numbers = count(1)
    with ExitStack() as opened:

        def open_storage(name: str | None = None) -> headwater.Client:
            storage = headwater.open(directory / (name or f"storage-{next(numbers)}"))
            return opened.enter_context(closing(storage))

        yield open_storage


@contextmanager
def servers(directory: Path) -> Iterator[ServerFactory]:
    """Yield a factory of servers below a directory: a new one for each call, or by name."""
    numbers = count(1)
    with ExitStack() as started:

        def start_server(name: str | None = None) -> RunningServer:
            served = directory / (name or f"server-{next(numbers)}")
            return started.enter_context(serving(served))

        yield start_server
