"""HTTP pages for monitoring: a few paths, read only, one request per connection."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.runtime.tasks import Tasks
from headwater.server.listener import binding
from headwater.server.security.door import Door, Guest, Strangers
from headwater.server.security.tls import Certificates

HEAD_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 128
ASK_WITHIN_S = 3.0
ANSWER_WITHIN_S = 10.0
TEXT = "text/plain; charset=utf-8"
DROPPED_LINES_MAX = 5
_METHODS = ("GET", "HEAD")
_SPEAKS_TLS = b"This port speaks TLS: use https.\n"
_REQUEST_LINE_WORDS = 3
_events = Events("metrics")


@dataclass(frozen=True, slots=True)
class Page:
    """The response to one request."""

    content: bytes
    content_type: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


class MetricsListener:
    """Serve pages by their paths, and nothing else."""

    def __init__(
        self,
        pages: Mapping[str, Callable[[], Page]],
        *,
        host: str,
        port: int,
        clock: Clock,
        certificates: Certificates | None = None,
    ) -> None:
        self._pages = pages
        self._certificates = certificates
        self._sparing = Sparing(clock, lines_max=DROPPED_LINES_MAX)
        self._door: Door | None = None
        self._host = host
        self._asked_port = port
        self._tasks = Tasks()
        # Those that have sent no request yet, oldest first.
        self._silent: dict[asyncio.Task[None], None] = {}
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Bind the port and start to accept."""
        if self._certificates is not None:
            self.port = await self._open_door(self._certificates)
            return
        with binding(self._host, self._asked_port, option="--metrics-port"):
            self._server = await asyncio.start_server(
                self._accept, self._host, self._asked_port, limit=HEAD_BYTES_MAX
            )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _open_door(self, certificates: Certificates) -> int:
        self._door = Door(
            self._protocol,
            Strangers(count_max=CONNECTIONS_MAX, per_network_max=CONNECTIONS_MAX),
            context=lambda: certificates.for_pages,
            refusal=lambda _: _encoded(Page(_SPEAKS_TLS, status=HTTPStatus.BAD_REQUEST)),
            within_s=ASK_WITHIN_S,
            sparing=self._sparing,
        )
        with binding(self._host, self._asked_port, option="--metrics-port"):
            await self._door.open(self._host, self._asked_port)
        return self._door.port

    def _protocol(self, _: Guest) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX)
        return asyncio.StreamReaderProtocol(reader, self._accept)

    async def stop(self) -> None:
        """Accept no more and close every connection."""
        if self._door is not None:
            self._door.close()
            await self._tasks.stop()
        if self._server is None:
            return
        self._server.close()
        await self._tasks.stop()
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= CONNECTIONS_MAX:
            oldest = next(iter(self._silent), None)
            if oldest is None:
                writer.transport.abort()
                return
            del self._silent[oldest]
            oldest.cancel()
        task = self._tasks.start(self._serve(reader, writer), name="metrics")
        self._silent[task] = None
        task.add_done_callback(self._has_asked)

    def _has_asked(self, task: "asyncio.Task[None] | None") -> None:
        if task is not None:
            self._silent.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, or drop a client that takes too long to send or to read."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            with suppress(OSError):
                writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(ASK_WITHIN_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _encoded(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        self._has_asked(asyncio.current_task())
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != _REQUEST_LINE_WORDS or not words[2].startswith("HTTP/1."):
            return _encoded(_refusal(HTTPStatus.BAD_REQUEST))
        method, target, _ = words
        if method not in _METHODS:
            return _encoded(_refusal(HTTPStatus.METHOD_NOT_ALLOWED))
        return _encoded(self._page(target.partition("?")[0]), with_content=method == "GET")

    def _page(self, path: str) -> Page:
        page = self._pages.get(path)
        if page is None:
            return _refusal(HTTPStatus.NOT_FOUND)
        try:
            return page()
        except Exception as fault:  # noqa: BLE001 - the outer edge of a request, which is told
            _events.error("page failed", cause=fault, path=path)
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)


def _refusal(status: HTTPStatus) -> Page:
    return Page(f"{status.phrase}\n".encode(), status=status)


def _encoded(page: Page, *, with_content: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.content)}\r\n"
        f"Allow: {', '.join(_METHODS)}\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (page.content if with_content else b"")
