"""One connection to a server: many requests in flight, each with a deadline."""

import asyncio
from contextlib import suppress
from typing import TypeVar

from google.protobuf.message import Message

from headwater.errors import HeadwaterError, RetryLaterError, error_of_code
from headwater.runtime.tasks import Tasks
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.frames import LENGTH, ResponseFrame, ResponseKind, request_head, response_frame

RESPONSE_BYTES_MAX = 1 << 30
CLIENT_NAME = "headwater"

Response = TypeVar("Response", bound=Message)


class Connection:
    """Send requests and match the responses that come back in any order."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        timeout_s: float,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout_s = timeout_s
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[ResponseFrame]] = {}
        self._failure: HeadwaterError | None = None
        self._tasks = Tasks()
        self._tasks.start(self._receive(), name="receive")

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        credentials: tuple[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> "Connection":
        """Connect, exchange versions, and authenticate where credentials are given."""
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        connection = cls(reader, writer, timeout_s=timeout_s)
        await connection.call(
            pb.ApiVersionsRequest(client_software_name=CLIENT_NAME, client_software_version="0"),
            pb.ApiVersionsResponse,
        )
        if credentials is not None:
            name, password = credentials
            token = f"\0{name}\0{password}".encode()
            await connection.call(
                pb.AuthenticateRequest(protocol="PLAIN", token=token), pb.AuthenticateResponse
            )
        return connection

    async def call(self, request: Message, response: type[Response]) -> Response:
        """Send a request and return its response, or raise the error that came instead."""
        frame = await self.exchange(request)
        answer = response()
        answer.ParseFromString(bytes(frame.body))
        return answer

    async def exchange(self, request: Message) -> ResponseFrame:
        """Send a request and return the frame that answers it."""
        if self._failure is not None:
            raise self._failure
        api, body = API_OF_REQUEST[type(request)], request.SerializeToString()
        self._next_id += 1
        request_id = self._next_id
        answer: asyncio.Future[ResponseFrame] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            head = request_head(api.key, api.version_max, request_id, body_bytes=len(body))
            self._writer.writelines((head, body))
            async with asyncio.timeout(self._timeout_s):
                frame = await answer
        except TimeoutError:
            raise RetryLaterError(f"No answer came within {self._timeout_s} s.") from None
        finally:
            self._waiting.pop(request_id, None)
        if frame.kind is not ResponseKind.ANSWER:
            raise _fault(frame)
        return frame

    async def close(self) -> None:
        """Close the connection; requests in flight fail."""
        await self._tasks.stop()
        self._fail(RetryLaterError("The connection was closed."))
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _receive(self) -> None:
        try:
            while True:
                (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
                frame = response_frame(memoryview(await self._reader.readexactly(length)))
                waiting = self._waiting.get(frame.request_id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._fail(RetryLaterError("The server closed the connection."))

    def _fail(self, fault: HeadwaterError) -> None:
        self._failure = self._failure or fault
        self._writer.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(fault)


def _fault(frame: ResponseFrame) -> HeadwaterError:
    if frame.kind is ResponseKind.FAILURE:
        return RetryLaterError("The server failed.")
    error = pb.ErrorResponse()
    error.ParseFromString(bytes(frame.body))
    return error_of_code(error.error_code, error.error_message)
