"""The listening socket and its connections."""

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from headwater.config.server import ServerSettings
from headwater.errors import ConflictError, RequestError
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.server.connection import (
    LOGIN_FRAME_BYTES_MAX,
    LOGIN_REQUESTS_MAX,
    Connection,
    Serve,
    ServeNow,
)
from headwater.server.logins import network_of
from headwater.server.memory import Budget
from headwater.server.quotas import Quotas

_events = Events("listener")
ANSWER_WITHIN_S = 5.0
DROPPED_LINES_MAX = 20
STUCK_WITHIN_S = 2.0


class Listener:
    """Accept connections, count them, and drop those that harm the others."""

    def __init__(
        self,
        serve: Serve,
        *,
        settings: ServerSettings,
        clock: Clock,
        needs_login: bool = False,
        serve_now: ServeNow = lambda _frame, _session: None,
        quotas: Quotas | None = None,
    ) -> None:
        self._serve = serve
        self._serve_now = serve_now
        self._quotas = quotas
        self._settings = settings
        self._clock = clock
        self._needs_login = needs_login
        self._connections: set[Connection] = set()
        # Those that have not logged in yet, oldest first.
        self._strangers: dict[Connection, None] = {}
        self._sparing = Sparing(clock, lines_max=DROPPED_LINES_MAX)
        self._stuck_seen: dict[Connection, tuple[float, int]] = {}
        self._server: asyncio.Server | None = None
        self._is_stopping = False
        self.requests = Budget(settings.total_request_bytes_max)
        # A separate budget: unauthenticated clients take no memory from the others.
        self.logins = Budget(LOGIN_REQUESTS_MAX * LOGIN_FRAME_BYTES_MAX)
        self.port = 0

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    async def start(self) -> None:
        """Bind the port and start to accept."""
        loop = asyncio.get_running_loop()
        host, port = self._settings.host, self._settings.port
        with binding(host, port, option="--port"):
            self._server = await loop.create_server(self._connection, host, port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Accept no more, finish running requests, close every connection."""
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
            logins=self.logins if self._needs_login else None,
            serve_now=self._serve_now,
            quotas=self._quotas,
        )

    # ---- events of connections

    def opened(self, connection: Connection) -> None:
        """Register a new connection, or close it if there are too many."""
        self._connections.add(connection)
        if self._is_stopping:
            connection.abort("the server is stopping")
        elif self._needs_login:
            self._strangers[connection] = None
            self._make_room_for(connection)
        else:
            self._check_count(connection)

    def logged_in(self, connection: Connection) -> None:
        """Register a login, or close the connection if there are too many."""
        self._strangers.pop(connection, None)
        self._check_count(connection)

    def dropped(self, connection: Connection, reason: str) -> None:
        """Log why a connection is closed by force."""
        if (left_out := self._sparing.turn()) is not None:
            peer = connection.session.peer
            _events.warning("connection dropped", peer=peer, reason=reason, **left_out)

    def closed(self, connection: Connection) -> None:
        """Unregister a connection that has ended."""
        self._connections.discard(connection)
        self._strangers.pop(connection, None)
        self._stuck_seen.pop(connection, None)

    def unsent_grew(self) -> None:
        """Drop the client that has been stuck longest when unread responses exceed their limit."""
        if sum(each.unsent_bytes() for each in self._connections) > self._settings.unsent_bytes_max:
            self._drop("unread responses exceed their limit, and this client is the slowest reader")

    def unsent_bytes(self) -> int:
        """Count the bytes of responses that stuck clients have not read."""
        stuck = (each for each in self._connections if each.stuck_since is not None)
        return sum(each.unsent_bytes() for each in stuck)

    def drop_slowest(self) -> bool:
        """Drop the client that has been stuck longest, if it was stuck for a while."""
        before = self._clock.monotonic() - STUCK_WITHIN_S
        if not any((each.stuck_since or before) < before for each in self._connections):
            return False
        self._drop(
            "others wait for memory for their responses, and this client is the slowest reader"
        )
        return True

    def _drop(self, reason: str) -> None:
        stuck = [each for each in self._connections if each.stuck_since is not None]
        min(stuck, key=lambda each: each.stuck_since or 0.0).abort(reason)

    async def sweep(self) -> None:
        """Drop clients that read nothing of their responses since the last sweep."""
        for connection in tuple(self._connections):
            before = self._stuck_seen.pop(connection, None)
            since, unsent = connection.stuck_since, connection.unsent_bytes()
            if since is None:
                continue
            # One that has read everything and is stuck again is slow, but alive.
            if before is not None and before[0] == since and unsent >= before[1]:
                connection.abort("the client does not read its responses")
            else:
                self._stuck_seen[connection] = (since, unsent)

    def let_go(self, credentials: Mapping[str, str]) -> None:
        """Close the connections of users who were removed, or whose password has changed."""
        for connection in tuple(self._connections):
            session = connection.session
            if session.principal is None or not session.needs_login:
                continue
            if credentials.get(session.principal) != session.credential:
                connection.abort(f"user {session.principal} was removed or has another password")

    # ---- limits

    def _check_count(self, connection: Connection) -> None:
        count_max = self._settings.connections_max
        if len(self._connections) - len(self._strangers) > count_max:
            connection.abort(f"the limit of {count_max} connections is reached")

    def _make_room_for(self, newcomer: Connection) -> None:
        """Close the oldest unauthenticated connection of the busiest address, if necessary.

        One without any request goes first, so that a running login is not cut off.
        """
        counts = Counter(network_of(each.session.address) for each in self._strangers)
        own = network_of(newcomer.session.address)
        if counts[own] > self._settings.login_connections_per_address_max:
            crowded = own
        elif len(self._strangers) > self._settings.login_connections_max:
            crowded = counts.most_common(1)[0][0]
        else:
            return
        others = [
            each
            for each in self._strangers
            if each is not newcomer and network_of(each.session.address) == crowded
        ]
        oldest = min(others, key=lambda each: each.has_asked, default=newcomer)
        del self._strangers[oldest]
        oldest.abort("others are waiting to log in, and this client has not done so")


@contextmanager
def binding(host: str, port: int, *, option: str) -> Iterator[None]:
    """Explain why a port cannot be listened on."""
    try:
        yield
    except socket.gaierror as fault:
        raise RequestError(
            f"There is no host {host!r} to listen on.", hint="Use an address of this machine."
        ) from fault
    except OSError as fault:
        match fault.errno:
            case errno.EADDRINUSE:
                raise ConflictError(
                    f"Port {port} on {host} is in use, perhaps by another server.",
                    hint=f"Stop that process, or choose another port with {option}; 0 picks a "
                    "free one.",
                ) from fault
            case errno.EADDRNOTAVAIL:
                raise RequestError(
                    f"{host} is not an address of this machine.", hint="Use one of its addresses."
                ) from fault
            case errno.EACCES:
                raise RequestError(
                    f"This user may not listen on port {port}.",
                    hint=f"Choose a port of 1024 or above with {option}.",
                ) from fault
            case _:
                raise
