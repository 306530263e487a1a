"""A server in a thread of its own, on a free port of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import headwater
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.errors import HeadwaterError
from headwater.runtime.loops import LoopThread
from headwater.server.server import Server

_HOST = "127.0.0.1"


class RunningServer:
    """Serve a directory until stopped; whoever connected through it is disconnected then."""

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
        """Return where clients reach it, as host:port; it stays the same over restarts."""
        return f"{self._settings.host}:{self._settings.port}"

    def connect(self, *, settings: ClientSettings | None = None) -> headwater.Client:
        """Return a client of it, which is closed at the latest when the server stops."""
        client = headwater.connect(self.address, settings=settings)
        self._clients.append(client)
        return client

    def restart(self) -> None:
        """Stop and start again at the same address, under clients that are connected."""
        self._stop()
        self._start()

    def stop(self) -> None:
        """Close the clients, make everything durable, and let go of the directory."""
        if not self._loop.is_open:
            return
        try:
            while self._clients:
                # One that has rows to write which the server refuses must not keep it alive.
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
    """Serve a directory for the length of a block."""
    server = RunningServer(directory, settings=settings)
    try:
        yield server
    finally:
        server.stop()
