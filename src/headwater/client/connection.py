"""A link over TCP: many requests in flight, each with a deadline."""

import asyncio
import errno
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from google.protobuf.message import Message

from headwater.errors import (
    DisconnectedError,
    HeadwaterError,
    ServerUnreachableError,
    UnsupportedError,
    error_of_code,
)
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, Api, ApiKey
from headwater.wire.fields import Part
from headwater.wire.frames import (
    FrameAssembler,
    ResponseFrame,
    ResponseKind,
    request_head,
    response_frame,
)

RESPONSE_BYTES_MAX = 1 << 30
CLIENT_NAME = "headwater"
# One small write costs less than a vector of smaller ones.
JOIN_BYTES_MAX = 16 * 1024
REQUEST_ID_MAX = 2**31 - 1
_ERRNO = re.compile(r"\[Errno (\d+)\]")

Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Hold the user name and password that a server asks for."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, ...)"


class Connection(asyncio.BufferedProtocol):
    """Send requests and match the responses that come back in any order."""

    def __init__(self, peer: str, *, timeout_s: float) -> None:
        self.peer = peer
        self._timeout_s = timeout_s
        self._assembler = FrameAssembler(frame_bytes_max=RESPONSE_BYTES_MAX)
        self._next_id = 0
        self._frames_received = 0
        self._waiting: dict[int, asyncio.Future[ResponseFrame]] = {}
        self._failure = ""
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.Event()
        self._versions: dict[int, int] = {ApiKey.API_VERSIONS: 0}

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        credentials: Credentials | tuple[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> "Connection":
        """Connect, exchange versions, and authenticate where credentials are given."""
        connection = cls(f"{host}:{port}", timeout_s=timeout_s)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: connection, host, port)
        except (OSError, TimeoutError) as cause:
            raise _unreached(host, port, cause, timeout_s=timeout_s) from cause
        try:
            await connection._greet(credentials)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _greet(self, credentials: Credentials | tuple[str, str] | None) -> None:
        answer = await self.call(
            pb.ApiVersionsRequest(client_software_name=CLIENT_NAME, client_software_version="0"),
            pb.ApiVersionsResponse,
        )
        self._versions |= {each.api_key: each.max_version for each in answer.api_versions}
        if credentials is None:
            return
        if isinstance(credentials, tuple):
            credentials = Credentials(*credentials)
        token = f"\0{credentials.user}\0{credentials.password}".encode()
        # A server that asks for credentials may list this API or not.
        self._versions.setdefault(ApiKey.AUTHENTICATE, 0)
        await self.call(
            pb.AuthenticateRequest(protocol="PLAIN", token=token), pb.AuthenticateResponse
        )

    # ---- requests

    async def call(self, request: Message, response: type[Response]) -> Response:
        """Send a request and return its response, or raise the error that came instead."""
        body = await self.exchange(
            API_OF_REQUEST[type(request)],
            [request.SerializeToString()],
            timeout_s=self._timeout_s,
        )
        answer = response()
        answer.ParseFromString(bytes(body))
        return answer

    async def exchange(self, api: Api, parts: Sequence[Part], *, timeout_s: float) -> memoryview:
        """Send a request and return the body of its answer, or raise the error that came."""
        request_id, answer = self._send(api, parts)
        received = self._frames_received
        try:
            async with asyncio.timeout(timeout_s):
                frame = await answer
        except TimeoutError:
            if received == self._frames_received:
                # Nothing at all came meanwhile: the other side is gone without a word.
                self._fail(f"{self.peer} does not answer.")
            raise DisconnectedError(
                f"{self.peer} did not answer {api.key.name} within {timeout_s} s."
            ) from None
        finally:
            self._waiting.pop(request_id, None)
        if frame.kind is not ResponseKind.ANSWER:
            raise _fault(frame)
        return frame.body

    def _send(self, api: Api, parts: Sequence[Part]) -> tuple[int, "asyncio.Future[ResponseFrame]"]:
        if self._failure:
            raise DisconnectedError(self._failure)
        assert self._transport is not None
        self._next_id = request_id = self._next_id % REQUEST_ID_MAX + 1
        answer: asyncio.Future[ResponseFrame] = asyncio.get_running_loop().create_future()
        size = sum(map(len, parts))
        head = request_head(api.key, self._version_of(api), request_id, body_bytes=size)
        self._waiting[request_id] = answer
        if size <= JOIN_BYTES_MAX:
            self._transport.write(b"".join((head, *parts)))
        else:
            self._transport.writelines((head, *parts))
        return request_id, answer

    def _version_of(self, api: Api) -> int:
        served = self._versions.get(api.key)
        if served is None:
            raise UnsupportedError(
                f"{self.peer} does not serve {api.key.name}.",
                hint="It is older than this client, or lacks the feature.",
            )
        return min(served, api.version_max)

    # ---- life

    @property
    def is_open(self) -> bool:
        """Tell whether requests can still be sent."""
        return not self._failure

    async def close(self) -> None:
        """Close the connection; requests in flight fail."""
        self._fail("The connection was closed.")
        if self._transport is not None:
            await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what waits for an answer."""
        reason = f": {exc}" if exc else "."
        self._fail(f"{self.peer} closed the connection{reason}")
        self._lost.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's shape
        """Return where the next bytes go."""
        return self._assembler.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand out the answers that are whole now."""
        try:
            for data in self._assembler.filled(nbytes):
                self._received(response_frame(data))
        except (HeadwaterError, ValueError, IndexError) as fault:
            self._fail(f"{self.peer} sent what is no answer: {fault}")
            return
        if self._assembler.wanted_bytes:
            self._assembler.make_room()

    def _received(self, frame: ResponseFrame) -> None:
        self._frames_received += 1
        if frame.kind is ResponseKind.FAILURE:
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
                waiting.set_exception(DisconnectedError(reason))


@dataclass(frozen=True, slots=True)
class TcpDialer:
    """Reach servers over TCP."""

    credentials: Credentials | None = None
    timeout_s: float = 10.0

    async def dial(self, host: str, port: int) -> Connection:
        """Connect to a server."""
        return await Connection.open(
            host, port, credentials=self.credentials, timeout_s=self.timeout_s
        )


def _unreached(
    host: str, port: int, cause: OSError | TimeoutError, *, timeout_s: float
) -> DisconnectedError:
    """Tell apart what an attempt soon after would meet again from what may have passed by then."""
    if isinstance(cause, socket.gaierror):
        return ServerUnreachableError(
            f"Cannot reach {host}:{port}: there is no host {host!r}.",
            hint="Check the name; a data directory is written like ./data.",
        )
    if _is_refused(cause):
        return ServerUnreachableError(
            f"Cannot reach {host}:{port}: Connection refused, as no server listens there.",
            hint=f"Start it, for example with: headwater serve ./data --port {port}",
        )
    if isinstance(cause, TimeoutError) and not cause.errno:
        return DisconnectedError(f"Cannot reach {host}:{port}: no answer within {timeout_s:g} s.")
    return DisconnectedError(f"Cannot reach {host}:{port}: {cause.strerror or cause}.")


def _is_refused(cause: OSError) -> bool:
    # A name with several addresses fails with one error that only quotes those of each address.
    numbers = {cause.errno, *map(int, _ERRNO.findall(str(cause)))}
    return errno.ECONNREFUSED in numbers


def _fault(frame: ResponseFrame) -> HeadwaterError:
    error = pb.ErrorResponse()
    error.ParseFromString(bytes(frame.body))
    return error_of_code(error.error_code, error.error_message)
