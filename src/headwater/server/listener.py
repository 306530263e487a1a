"""The listening socket and its connections."""

import asyncio
import errno
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from headwater.config.server import ServerSettings
from headwater.errors import AuthenticationError, ConflictError, RequestError
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.server.connection import (
    LOGIN_FRAME_BYTES_MAX,
    LOGIN_REQUESTS_MAX,
    Connection,
    Serve,
    ServeNow,
    Session,
)
from headwater.server.memory import Budget
from headwater.server.quotas import Quotas
from headwater.server.security.door import Door, Guest, Strangers
from headwater.server.security.tls import Certificates
from headwater.wire import fluss_pb2 as pb
from headwater.wire import frames

_events = Events("listener")
ANSWER_WITHIN_S = 5.0
DROPPED_LINES_MAX = 20
STUCK_WITHIN_S = 2.0


class LoginTrail(Protocol):
    """Take note of logins for which there is no request."""

    def note_certificate(self, principal: str, *, address: str, refusal: str = "") -> None:
        """Take note of a login by certificate."""
        ...


class Listener:
    """Accept connections, count them, and drop those that harm the others."""

    def __init__(  # noqa: PLR0913 - one argument per part
        self,
        serve: Serve,
        *,
        settings: ServerSettings,
        clock: Clock,
        needs_login: bool = False,
        serve_now: ServeNow = lambda _frame, _session: None,
        quotas: Quotas | None = None,
        certificates: Certificates | None = None,
        trail: LoginTrail | None = None,
    ) -> None:
        self._serve = serve
        self._serve_now = serve_now
        self._quotas = quotas
        self._settings = settings
        self._clock = clock
        self._needs_login = needs_login
        self._connections: set[Connection] = set()
        # Those that have not logged in yet, or have not finished a TLS handshake.
        self.strangers = Strangers(
            count_max=settings.login_connections_max,
            per_network_max=settings.login_connections_per_address_max,
        )
        self._sparing = Sparing(clock, lines_max=DROPPED_LINES_MAX)
        self._certificates = certificates
        self._trail = trail
        self._door: Door | None = None
        self._stuck_seen: dict[Connection, tuple[float, int]] = {}
        self._server: asyncio.Server | None = None
        self._is_stopping = False
        self.requests = Budget(settings.total_request_bytes_max)
        # A separate budget: unauthenticated clients take no memory from the others.
        self.logins = Budget(LOGIN_REQUESTS_MAX * LOGIN_FRAME_BYTES_MAX)
        self.port = 0
        self.tls_port = 0

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    async def start(self) -> None:
        """Bind the ports and start to accept."""
        settings = self._settings
        if self._certificates is None or settings.tls_port is not None:
            loop = asyncio.get_running_loop()
            with binding(settings.host, settings.port, option="--port"):
                self._server = await loop.create_server(
                    self._connection, settings.host, settings.port, backlog=512
                )
            self.port = self._server.sockets[0].getsockname()[1]
        if self._certificates is not None:
            self.tls_port = await self._open_door(self._certificates)
            self.port = self.port or self.tls_port

    async def _open_door(self, certificates: Certificates) -> int:
        settings = self._settings
        host, port, option = settings.host, settings.port, "--port"
        if settings.tls_port is not None:
            host, port, option = settings.tls_host or host, settings.tls_port, "--tls-port"
        self._door = Door(
            self._secure_connection,
            self.strangers,
            context=lambda: certificates.context,
            refusal=refusal_in_clear,
            within_s=settings.login_timeout_s,
            sparing=self._sparing,
            refused=self._refused_certificate,
        )
        with binding(host, port, option=option):
            await self._door.open(host, port)
        return self._door.port

    async def stop(self) -> None:
        """Accept no more, finish running requests, close every connection."""
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        if self._door is not None:
            self._door.close()
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

    def _secure_connection(self, guest: Guest) -> Connection:
        connection = self._connection()
        connection.guest = guest
        return connection

    # ---- events of connections

    def opened(self, connection: Connection) -> None:
        """Register a new connection, or close it if there are too many."""
        self._connections.add(connection)
        if connection.guest is not None:
            connection.guest.leave()
            connection.guest = None
        if self._is_stopping:
            connection.abort("the server is stopping")
        elif self._needs_login and connection.session.principal is None:
            self.strangers.add(connection)
        else:
            self._note_certificate(connection.session)
            self._check_count(connection)

    def _note_certificate(self, session: Session) -> None:
        # Nobody else is known before the first request.
        if self._trail is not None and session.principal is not None:
            self._trail.note_certificate(session.principal, address=session.address)

    def _refused_certificate(self, address: str, reason: str) -> None:
        if self._trail is not None:
            self._trail.note_certificate("", address=address, refusal=reason)

    def logged_in(self, connection: Connection) -> None:
        """Register a login, or close the connection if there are too many."""
        self.strangers.remove(connection)
        self._check_count(connection)

    def dropped(self, connection: Connection, reason: str) -> None:
        """Log why a connection is closed by force."""
        if (left_out := self._sparing.turn()) is not None:
            peer = connection.session.peer
            _events.warning("connection dropped", peer=peer, reason=reason, **left_out)

    def closed(self, connection: Connection) -> None:
        """Unregister a connection that has ended."""
        self._connections.discard(connection)
        self.strangers.remove(connection)
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
            # Certificates and tokens name principals that are not in the file.
            if session.principal is None or not session.credential:
                continue
            if credentials.get(session.principal) != session.credential:
                connection.abort(f"user {session.principal} was removed or has another password")

    # ---- limits

    @property
    def _known_count(self) -> int:
        guests = 0 if self._door is None else len(self._door.guests)
        return len(self._connections) - (len(self.strangers) - guests)

    def _check_count(self, connection: Connection) -> None:
        count_max = self._settings.connections_max
        if self._known_count > count_max:
            connection.abort(f"the limit of {count_max} connections is reached")


def refusal_in_clear(first: bytes) -> bytes:
    """Answer a request without TLS on a port that speaks it, as far as its head has come."""
    if len(first) < frames.LENGTH.size + frames.REQUEST_HEAD.size:
        return b""
    _, _, request_id = frames.REQUEST_HEAD.unpack_from(first, frames.LENGTH.size)
    fault = AuthenticationError(
        "This port speaks TLS.", hint="Connect with TLS: tls=True in Python, --tls for commands."
    )
    error = pb.ErrorResponse(error_code=fault.code, error_message=str(fault)).SerializeToString()
    head = frames.response_head(frames.ResponseKind.ERROR, request_id, body_bytes=len(error))
    return head + error


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
