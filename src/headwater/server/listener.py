"""The listening socket and the connections that came through it."""

import asyncio

from headwater.config.server import ServerSettings
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.server.budget import Budget
from headwater.server.connection import Connection, Serve

_events = Events("listener")
ANSWER_WITHIN_S = 5.0


class Listener:
    """Accept connections, count them, and drop those that harm the others."""

    def __init__(self, serve: Serve, *, settings: ServerSettings, clock: Clock) -> None:
        self._serve = serve
        self._settings = settings
        self._clock = clock
        self._connections: set[Connection] = set()
        self._stuck_seen: dict[Connection, tuple[float, int]] = {}
        self._server: asyncio.Server | None = None
        self._is_stopping = False
        self.requests = Budget(settings.total_request_bytes_max)
        self.port = 0

    @property
    def connection_count(self) -> int:
        """Return how many connections are open."""
        return len(self._connections)

    async def start(self) -> None:
        """Bind the port and begin to accept."""
        loop = asyncio.get_running_loop()
        host, port = self._settings.host, self._settings.port
        self._server = await loop.create_server(self._connection, host, port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Accept no more, answer what was asked, close every connection."""
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        finishing = [each.finish(within_s=ANSWER_WITHIN_S) for each in tuple(self._connections)]
        await asyncio.gather(*finishing)
        if self._server is not None:
            await self._server.wait_closed()

    def _connection(self) -> Connection:
        return Connection(
            self._serve,
            self,
            requests=self.requests,
            settings=self._settings,
            clock=self._clock,
        )

    # ---- what connections tell

    def opened(self, connection: Connection) -> None:
        """Take note of a new connection, or close it if there are too many."""
        self._connections.add(connection)
        if self._is_stopping:
            connection.abort("the server stops")
        elif len(self._connections) > self._settings.connections_max:
            connection.abort(f"there are {self._settings.connections_max} connections already")

    def closed(self, connection: Connection) -> None:
        """Take note of a connection that has ended."""
        self._connections.discard(connection)
        self._stuck_seen.pop(connection, None)

    def unsent_grew(self) -> None:
        """Drop the client that has been stuck longest when unread answers exceed their limit."""
        if sum(each.unsent_bytes() for each in self._connections) > self._settings.unsent_bytes_max:
            stuck = [each for each in self._connections if each.stuck_since is not None]
            slowest = min(stuck, key=lambda each: each.stuck_since or 0.0)
            slowest.abort("unread answers exceed their limit, and this client reads slowest")

    async def sweep(self) -> None:
        """Drop clients that took nothing of their answers since the last sweep."""
        for connection in tuple(self._connections):
            before = self._stuck_seen.pop(connection, None)
            since, unsent = connection.stuck_since, connection.unsent_bytes()
            if since is None:
                continue
            # One that has read everything and is stuck again is slow, but alive.
            if before is not None and before[0] == since and unsent >= before[1]:
                connection.abort("the client does not read its answers")
            else:
                self._stuck_seen[connection] = (since, unsent)
