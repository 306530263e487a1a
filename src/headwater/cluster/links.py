"""Links to servers: the interface, the TCP link, and the pool with one link for each server.

A link has many requests in flight, each with a deadline. The link to a server in the same process
is in `embedded`.
"""

import asyncio
import errno
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from google.protobuf.message import Message

from headwater import errors
from headwater.cluster import login
from headwater.model.bucket import TableBucket
from headwater.runtime.tasks import aside, shared
from headwater.wire import fluss_pb2 as pb
from headwater.wire import frames
from headwater.wire.apis import API_OF_REQUEST, Api, ApiKey
from headwater.wire.messages import Part, answer_of, checked_answer_of


class Link(Protocol):
    """Send requests to one server; many may be in flight at a time."""

    async def exchange(self, api: Api, parts: Sequence[Part], *, timeout_s: float) -> memoryview:
        """Send a request and return the body of its response, or raise the error it contains.

        The request is sent before the first await, so requests leave in the order of calls.
        """
        ...

    @property
    def is_open(self) -> bool:
        """Tell whether requests can still be sent."""
        ...

    async def close(self) -> None:
        """Disconnect; requests in flight fail."""
        ...


class Dialer(Protocol):
    """Open links."""

    async def dial(self, host: str, port: int) -> Link:
        """Connect to a server, or raise a DisconnectedError."""
        ...


class DirectReads(Protocol):
    """Look up keys in a server of this process, from any thread."""

    def lookup_now(self, bucket: TableBucket, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """Return the value of each key if no waiting is needed; None means to send a request."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Pool:
    """Connect to servers on first use, and again after a link broke."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._dialing: dict[Address, asyncio.Task[Link]] = {}
        self._links: dict[Address, Link] = {}
        self._is_closed = False

    @property
    def reached(self) -> tuple[Address, ...]:
        """The servers with an open link."""
        return tuple(address for address, link in self._links.items() if link.is_open)

    async def link(self, address: Address) -> Link:
        """Reuse the link to a server, or open one."""
        if self._is_closed:
            raise errors.ClosedError("The client is closed.", hint="Open or connect again.")
        link = self._links.get(address)
        if link is not None and link.is_open:
            return link
        dialing = self._dialing.get(address)
        if dialing is None:
            dialing = asyncio.get_running_loop().create_task(self._dial(address))
            self._dialing[address] = dialing
        # A caller that stops waiting does not cancel the dial, since others wait for it.
        return await shared(dialing)

    async def _dial(self, address: Address) -> Link:
        try:
            link = await self._dialer.dial(address.host, address.port)
            if self._is_closed:
                await link.close()
                raise errors.DisconnectedError("The client is closed.")
            self._links[address] = link
            return link
        finally:
            del self._dialing[address]

    async def close(self) -> None:
        """Close every link; calls in flight fail."""
        self._is_closed = True
        await asyncio.gather(*self._dialing.values(), return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._links.clear()


# The TCP link.

RESPONSE_BYTES_MAX = 1 << 30
CLIENT_NAME = "headwater"
# One small write costs less than a vector of smaller ones.
JOIN_BYTES_MAX = 16 * 1024
REQUEST_ID_MAX = 2**31 - 1
_ERRNO = re.compile(r"\[Errno (\d+)\]")

Response = TypeVar("Response", bound=Message)


def greeting() -> pb.ApiVersionsRequest:
    """Build the first request on every connection."""
    return pb.ApiVersionsRequest(client_software_name=CLIENT_NAME, client_software_version="0")


class ServedVersions:
    """Which version of each API to use with one server."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        # A server that requires credentials may or may not list that API.
        self._served: dict[int, int] = {ApiKey.API_VERSIONS: 0, ApiKey.AUTHENTICATE: 0}

    def learn(self, answer: pb.ApiVersionsResponse) -> None:
        """Take over the versions that the server announces."""
        self._served |= {each.api_key: each.max_version for each in answer.api_versions}

    def of(self, api: Api) -> int:
        """Pick the newest version of an API that both sides know."""
        served = self._served.get(api.key)
        if served is None:
            raise errors.UnsupportedError(
                f"{self._peer} does not support {api.key.name}.",
                hint="The server is older than this client, or lacks the feature.",
            )
        return min(served, api.version_max)


class TcpConnection(asyncio.BufferedProtocol):
    """Send requests and match the responses, which arrive in any order."""

    def __init__(self, peer: str, *, timeout_s: float) -> None:
        self.peer = peer
        self._timeout_s = timeout_s
        self._assembler = frames.FrameAssembler(frame_bytes_max=RESPONSE_BYTES_MAX)
        self._next_id = 0
        self._frames_received = 0
        self._waiting: dict[int, asyncio.Future[frames.ResponseFrame]] = {}
        self._failure = ""
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.Event()
        self._versions = ServedVersions(peer)

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        credentials: login.Credentials | tuple[str, str] | None = None,
        timeout_s: float = 30.0,
        tls: login.Tls | None = None,
    ) -> "TcpConnection":
        """Connect, exchange versions, and authenticate if there are credentials.

        A server that does not have the mechanism is asked again for one that it has, on a new
        connection: some close the one before.
        """
        if isinstance(credentials, tuple):
            credentials = login.Credentials(*credentials)
        mechanism = ""
        for _ in range(login.LOGINS_MAX):
            connection = cls(f"{host}:{port}", timeout_s=timeout_s)
            await connection._dial(host, port, tls)
            try:
                refused = await connection._greet(credentials, mechanism)
            except BaseException:
                await connection.close()
                raise
            if refused is None:
                return connection
            mechanism = refused
            await connection.close()
        raise errors.AuthenticationError(f"{host}:{port} refuses the mechanisms that it names.")

    async def _dial(self, host: str, port: int, tls: login.Tls | None) -> None:
        loop, timeout_s = asyncio.get_running_loop(), self._timeout_s
        context = None if tls is None else await aside(tls.context)
        name = None if tls is None else tls.name(host)
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(
                    lambda: self, host, port, ssl=context, server_hostname=name
                )
        except (OSError, TimeoutError) as cause:
            if tls is not None and isinstance(cause, login.HANDSHAKE_FAULTS):
                raise await aside(
                    login.handshake_fault, host, port, cause, tls=tls, timeout_s=timeout_s
                ) from cause
            raise unreached(host, port, cause, timeout_s=timeout_s) from cause

    async def _greet(self, credentials: login.Credentials | None, mechanism: str) -> str | None:
        """Exchange versions and log in; return the mechanism to use if this one is refused."""
        answer = await self.call(greeting(), pb.ApiVersionsResponse)
        self._versions.learn(answer)
        if credentials is None:
            return None
        assert self._transport is not None
        private = login.is_private(
            self._transport.get_extra_info("socket"),
            is_encrypted=self._transport.get_extra_info("ssl_object") is not None,
        )
        exchange = credentials.begin(mechanism or credentials.preferred(is_private=private))
        try:
            await self._log_in(exchange)
        except errors.AuthenticationError as fault:
            chosen = credentials.instead(fault, is_private=private)
            if chosen is None:
                raise
            return chosen
        return None

    async def _log_in(self, exchange: login.Exchange) -> None:
        token: bytes | None = exchange.first()
        while token is not None:
            request = pb.AuthenticateRequest(protocol=exchange.mechanism, token=token)
            answer = await self.call(request, pb.AuthenticateResponse)
            # Outside of the loop, because it may compute for a while.
            token = await aside(exchange.next, answer.challenge)

    # ---- requests

    async def call(self, request: Message, response: type[Response]) -> Response:
        """Send a request and return its response, or raise the error it contains."""
        body = await self.exchange(
            API_OF_REQUEST[type(request)],
            [request.SerializeToString()],
            timeout_s=self._timeout_s,
        )
        return checked_answer_of(response, body)

    async def exchange(self, api: Api, parts: Sequence[Part], *, timeout_s: float) -> memoryview:
        """Send a request and return the body of its response, or raise the error it contains."""
        request_id, answer = self._send(api, parts)
        received = self._frames_received
        try:
            async with asyncio.timeout(timeout_s):
                frame = await answer
        except TimeoutError:
            if received == self._frames_received:
                # No bytes arrived in the meantime: the other side is gone.
                self._fail(f"{self.peer} does not respond.")
            raise errors.DisconnectedError(
                f"{self.peer} did not answer {api.key.name} within {timeout_s} s."
            ) from None
        finally:
            self._waiting.pop(request_id, None)
        if frame.kind is not frames.ResponseKind.ANSWER:
            raise fault_of(frame)
        return frame.body

    def _send(
        self, api: Api, parts: Sequence[Part]
    ) -> tuple[int, "asyncio.Future[frames.ResponseFrame]"]:
        if self._failure:
            raise errors.DisconnectedError(self._failure)
        assert self._transport is not None
        self._next_id = request_id = self._next_id % REQUEST_ID_MAX + 1
        answer: asyncio.Future[frames.ResponseFrame] = asyncio.get_running_loop().create_future()
        size = sum(map(len, parts))
        head = frames.request_head(api.key, self._versions.of(api), request_id, body_bytes=size)
        self._waiting[request_id] = answer
        if size <= JOIN_BYTES_MAX:
            self._transport.write(b"".join((head, *parts)))
        else:
            self._transport.writelines((head, *parts))
        return request_id, answer

    # ---- connection

    @property
    def is_open(self) -> bool:
        """Tell whether requests can still be sent."""
        return not self._failure

    async def close(self) -> None:
        """Close the connection; requests in flight fail."""
        self._fail("The connection is closed.")
        if self._transport is not None:
            await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests that wait for a response."""
        reason = f": {exc}" if exc else "."
        self._fail(f"{self.peer} closed the connection{reason}")
        self._lost.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's shape
        """Lend asyncio the place where the next bytes belong."""
        return self._assembler.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Deliver the responses that are complete."""
        try:
            for data in self._assembler.filled(nbytes):
                self._received(frames.response_frame(data))
        except (errors.HeadwaterError, ValueError, IndexError) as fault:
            self._fail(f"{self.peer} sent an invalid response: {fault}")
            return
        if self._assembler.wanted_bytes:
            self._assembler.make_room()

    def _received(self, frame: frames.ResponseFrame) -> None:
        self._frames_received += 1
        if frame.kind is frames.ResponseKind.FAILURE:
            self._fail(f"{self.peer} failed.")
            return
        waiting = self._waiting.get(frame.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(frame)

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        if self._transport is not None:
            self._transport.abort()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(errors.DisconnectedError(reason))


@dataclass(frozen=True, slots=True)
class TcpDialer:
    """Open TCP links."""

    credentials: login.Credentials | None = None
    timeout_s: float = 10.0
    tls: login.Tls | None = None

    async def dial(self, host: str, port: int) -> TcpConnection:
        """Connect to a server."""
        return await TcpConnection.open(
            host, port, credentials=self.credentials, timeout_s=self.timeout_s, tls=self.tls
        )


def unreached(
    host: str, port: int, cause: OSError | TimeoutError, *, timeout_s: float
) -> errors.DisconnectedError:
    """Distinguish failures that a prompt retry would meet again from passing ones."""
    if isinstance(cause, socket.gaierror):
        return errors.ServerUnreachableError(
            f"Cannot reach {host}:{port}: there is no host {host!r}.",
            hint="Check the name; to open a data directory, write it like ./data.",
        )
    if _is_refused(cause):
        return errors.ServerUnreachableError(
            f"Cannot reach {host}:{port}: Connection refused, no server is listening there.",
            hint=f"Start a server, for example: headwater serve ./data --port {port}",
        )
    if isinstance(cause, TimeoutError) and not cause.errno:
        return errors.DisconnectedError(
            f"Cannot reach {host}:{port}: no answer within {timeout_s:g} s."
        )
    return errors.DisconnectedError(f"Cannot reach {host}:{port}: {cause.strerror or cause}.")


def _is_refused(cause: OSError) -> bool:
    # A name with several addresses fails with one error that only quotes the error of each.
    numbers = {cause.errno, *map(int, _ERRNO.findall(str(cause)))}
    return errno.ECONNREFUSED in numbers


def fault_of(frame: frames.ResponseFrame) -> errors.HeadwaterError:
    """Turn an error frame into an error."""
    error = answer_of(pb.ErrorResponse, frame.body)
    return errors.error_of_code(error.error_code, error.error_message)
