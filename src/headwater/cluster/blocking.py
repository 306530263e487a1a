"""Blocking connections: one request at a time, in the calling thread, without an event loop.

A caller that does not await would otherwise switch to the loop's thread and back for every request,
which costs more than a small request itself. A connection is lent to one caller at a time, so
requests and responses need no matching. There are at most a few per server. A caller that gets
none, or whose connection breaks, falls back to the event loop, which retries, finds new leaders and
raises errors.
"""

import os
import socket
import ssl
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import Message

from headwater import errors
from headwater.cluster import links, login
from headwater.runtime.clock import Clock
from headwater.wire import fluss_pb2 as pb
from headwater.wire import frames
from headwater.wire.apis import API_OF_REQUEST, Api
from headwater.wire.messages import Part, checked_answer_of

CONNECTIONS_MAX = 8
"""Connections to one server; further threads use the loop's link."""
IDLE_S_MAX = 60.0
"""A firewall may have dropped a connection that was idle for longer."""
REDIAL_PAUSE_S = 5.0
"""A server that cannot be reached, refuses a login or goes silent is not dialled again before."""
_RECEIVE_BYTES = 8 * 1024
_TIMEVAL = struct.Struct("ll")

Response = TypeVar("Response", bound=Message)


class BlockingConnection:
    """Send one request at a time and wait for its response."""

    def __init__(self, peer: str, opened: socket.socket, *, clock: Clock) -> None:
        self._peer = peer
        self._socket = opened
        self._is_encrypted = isinstance(opened, ssl.SSLSocket)
        self._clock = clock
        self._next_id = 0
        self._limit_s = 0.0
        self._versions = links.ServedVersions(peer)
        self.is_open = True
        self.is_silent = False
        """Whether an answer did not come in time."""

    @classmethod
    def open(
        cls,
        address: links.Address,
        *,
        credentials: login.Credentials | None,
        timeout_s: float,
        clock: Clock,
        tls: login.Tls | None = None,
    ) -> "BlockingConnection":
        """Connect, exchange versions, and log in if there are credentials."""
        mechanism = ""
        for _ in range(login.LOGINS_MAX):
            opened = _dialled(address, timeout_s=timeout_s, tls=tls)
            connection = cls(str(address), opened, clock=clock)
            try:
                refused = connection._greet(credentials, mechanism, timeout_s)
            except BaseException:
                connection.close()
                raise
            if refused is None:
                return connection
            mechanism = refused
            connection.close()
        raise errors.AuthenticationError(f"{address} refuses the mechanisms that it names.")

    def _greet(
        self, credentials: login.Credentials | None, mechanism: str, timeout_s: float
    ) -> str | None:
        """Exchange versions and log in; return the mechanism to use if this one is refused."""
        self._versions.learn(self._call(links.greeting(), pb.ApiVersionsResponse, timeout_s))
        if credentials is None:
            return None
        private = login.is_private(self._socket, is_encrypted=self._is_encrypted)
        exchange = credentials.begin(mechanism or credentials.preferred(is_private=private))
        try:
            self._log_in(exchange, timeout_s)
        except errors.AuthenticationError as fault:
            chosen = credentials.instead(fault, is_private=private)
            if chosen is None:
                raise
            return chosen
        return None

    def _log_in(self, exchange: login.Exchange, timeout_s: float) -> None:
        token: bytes | None = exchange.first()
        while token is not None:
            request = pb.AuthenticateRequest(protocol=exchange.mechanism, token=token)
            answer = self._call(request, pb.AuthenticateResponse, timeout_s)
            token = exchange.next(answer.challenge)

    def _call(self, request: Message, response: type[Response], timeout_s: float) -> Response:
        api = API_OF_REQUEST[type(request)]
        body = self.exchange(api, [request.SerializeToString()], timeout_s=timeout_s)
        return checked_answer_of(response, body)

    def exchange(self, api: Api, parts: Sequence[Part], *, timeout_s: float) -> memoryview:
        """Send a request and return the body of its response, or raise the error it contains.

        After a DisconnectedError the connection is unusable; the server may have executed the
        request.
        """
        version = self._versions.of(api)
        self._next_id = request_id = self._next_id % links.REQUEST_ID_MAX + 1
        head = frames.request_head(api.key, version, request_id, body_bytes=sum(map(len, parts)))
        try:
            self._limit(timeout_s)
            self._socket.sendall(b"".join((head, *parts)))
            frame = self._answer_to(request_id, timeout_s)
        except (OSError, errors.CorruptBatchError) as cause:
            self.close()
            raise self._broken(cause, api, timeout_s) from cause
        except BaseException:  # A response that nobody waited for would be taken for the next one.
            self.close()
            raise
        if frame.kind is frames.ResponseKind.ANSWER:
            return frame.body
        raise links.fault_of(frame)

    def _answer_to(self, request_id: int, timeout_s: float) -> frames.ResponseFrame:
        frame = frames.response_frame(self._received(timeout_s))
        if frame.request_id != request_id:
            raise errors.CorruptBatchError("The server sent a response to another request.")
        return frame

    def _received(self, timeout_s: float) -> memoryview:
        """Receive the next frame without its length; a small one arrives in one piece."""
        data = self._socket.recv(_RECEIVE_BYTES)
        if len(data) > frames.LENGTH.size:
            (length,) = frames.LENGTH.unpack_from(data)
            if length == len(data) - frames.LENGTH.size:
                return memoryview(data)[frames.LENGTH.size :]
        return self._received_rest(data, self._clock.monotonic() + timeout_s)

    def _received_rest(self, data: bytes, deadline: float) -> memoryview:
        while 0 < len(data) < frames.LENGTH.size:
            data += self._receive(frames.LENGTH.size - len(data), deadline)
        if not data:
            raise ConnectionResetError("the server closed it")
        (length,) = frames.LENGTH.unpack_from(data)
        if not 0 <= length <= links.RESPONSE_BYTES_MAX or len(data) - frames.LENGTH.size > length:
            raise errors.CorruptBatchError(f"A response announces a length of {length} bytes.")
        frame = memoryview(bytearray(length))
        end = len(data) - frames.LENGTH.size
        frame[:end] = data[frames.LENGTH.size :]
        while end < length:
            self._wait_until(deadline)
            count = self._socket.recv_into(frame[end:])
            if not count:
                raise ConnectionResetError("the server closed it")
            end += count
        return frame.toreadonly()

    def _receive(self, size: int, deadline: float) -> bytes:
        self._wait_until(deadline)
        data = self._socket.recv(size)
        if not data:
            raise ConnectionResetError("the server closed it")
        return data

    def _wait_until(self, deadline: float) -> None:
        left_s = deadline - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._limit(left_s)

    def _limit(self, timeout_s: float) -> None:
        """Let sends and receives fail after a while.

        The kernel watches the time, which saves it two calls for each: with a timeout of Python's,
        the socket is polled before it is read or written.
        """
        if timeout_s == self._limit_s:
            return
        if self._is_encrypted:
            # OpenSSL would read again after a timeout of the kernel's, without end.
            self._socket.settimeout(timeout_s)
            self._limit_s = timeout_s
            return
        seconds, micros = divmod(max(int(timeout_s * 1_000_000), 1), 1_000_000)
        limit = _TIMEVAL.pack(seconds, micros)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._limit_s = timeout_s

    def _broken(self, cause: Exception, api: Api, timeout_s: float) -> errors.DisconnectedError:
        if isinstance(cause, TimeoutError | BlockingIOError):
            self.is_silent = True
            return errors.DisconnectedError(
                f"{self._peer} did not answer {api.key.name} within {timeout_s:g} s."
            )
        return errors.DisconnectedError(f"The connection to {self._peer} broke: {cause}.")

    def interrupt(self) -> None:
        """Wake up a caller that waits for a response; from any thread."""
        with suppress(OSError):  # It may have ended already.
            # Not that of an SSL socket, which would drop its state under the reader's feet.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        self._socket.close()


def _dialled(address: links.Address, *, timeout_s: float, tls: login.Tls | None) -> socket.socket:
    host, port = address.host, address.port
    try:
        opened = socket.create_connection((host, port), timeout_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as cause:
        raise links.unreached(host, port, cause, timeout_s=timeout_s) from cause
    if tls is None:
        opened.settimeout(None)  # from here on the kernel watches the time
        return opened
    try:
        return tls.context().wrap_socket(opened, server_hostname=tls.name(host))
    except OSError as cause:
        opened.close()
        raise login.handshake_fault(host, port, cause, tls=tls, timeout_s=timeout_s) from cause


@dataclass(slots=True)
class _Server:
    """The connections to one server: how many there are, and which are idle."""

    count: int = 0
    idle: list[tuple[BlockingConnection, float]] = field(default_factory=list)
    dial_from: float = 0.0


class BlockingConnections:
    """Lend connections to blocking callers; threads may share it, processes may not."""

    def __init__(
        self,
        credentials: login.Credentials | None,
        *,
        timeout_s: float,
        clock: Clock,
        tls: login.Tls | None = None,
    ) -> None:
        self._credentials = credentials
        self._tls = tls
        self._timeout_s = timeout_s
        self._clock = clock
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._servers: dict[links.Address, _Server] = {}
        self._lent: set[BlockingConnection] = set()
        self._is_closed = False

    def exchange(
        self, address: links.Address, api: Api, parts: Sequence[Part], *, timeout_s: float
    ) -> memoryview | None:
        """Send a request and return the body of its response, or raise the error it contains.

        None means that no connection was available and nothing was sent. After a DisconnectedError
        the server may have executed the request.
        """
        connection = self._borrow(address)
        if connection is None:
            return None
        try:
            return connection.exchange(api, parts, timeout_s=timeout_s)
        finally:
            self._give_back(address, connection)

    def _borrow(self, address: links.Address) -> BlockingConnection | None:
        now = self._clock.monotonic()
        with self._lock:
            if self._is_closed or os.getpid() != self._process:
                return None
            server = self._servers.get(address)
            if server is None:
                server = self._servers[address] = _Server()
            while server.idle:
                connection, used_at = server.idle.pop()
                if now - used_at <= IDLE_S_MAX:
                    self._lent.add(connection)
                    return connection
                server.count -= 1
                connection.close()
            if server.count >= CONNECTIONS_MAX or now < server.dial_from:
                return None
            server.count += 1
        return self._dial(address, server)

    def _dial(self, address: links.Address, server: _Server) -> BlockingConnection | None:
        connection = None
        try:
            connection = BlockingConnection.open(
                address,
                credentials=self._credentials,
                timeout_s=self._timeout_s,
                clock=self._clock,
                tls=self._tls,
            )
        except errors.HeadwaterError:
            server.dial_from = self._clock.monotonic() + REDIAL_PAUSE_S
        finally:
            self._dialled(server, connection)
        return connection

    def _dialled(self, server: _Server, connection: BlockingConnection | None) -> None:
        with self._lock:
            if connection is None:
                server.count -= 1
                return
            self._lent.add(connection)
            if self._is_closed:  # Too late to be interrupted with the others.
                connection.close()

    def _give_back(self, address: links.Address, connection: BlockingConnection) -> None:
        with self._lock:
            self._lent.discard(connection)
            server = self._servers[address]
            if connection.is_open and not self._is_closed:
                server.idle.append((connection, self._clock.monotonic()))
                return
            server.count -= 1
            if connection.is_silent:  # Another connection would most likely wait as long.
                server.dial_from = self._clock.monotonic() + REDIAL_PAUSE_S
            # What broke one connection, such as a server shutdown, broke the others too.
            broken, server.idle = server.idle, []
            server.count -= len(broken)
        for each in (connection, *(idle for idle, _ in broken)):
            each.close()

    def close(self) -> None:
        """Close every connection; requests in flight fail."""
        if os.getpid() != self._process:
            return  # They belong to the parent process.
        with self._lock:
            self._is_closed = True
            idle = [each for server in self._servers.values() for each, _ in server.idle]
            for server in self._servers.values():
                server.idle = []
            lent = tuple(self._lent)
        for connection in idle:
            connection.close()
        for connection in lent:
            connection.interrupt()
