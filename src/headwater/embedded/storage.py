"""Open a data directory inside the caller's process, where requests become calls."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.errors import DisconnectedError, HeadwaterError, RequestError, error_of_code
from headwater.lake.lakes import Lakes
from headwater.runtime.clock import SystemClock
from headwater.runtime.tasks import Tasks
from headwater.server.connection import Part, Serve, Session
from headwater.server.dispatch import Dispatcher
from headwater.server.handlers.write import Told
from headwater.server.server import Server
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import Api
from headwater.wire.frames import RequestFrame, ResponseKind
from headwater.wire.write import ProduceRequest, PutRequest

# A link to a server in the same process: requests become calls.

PEER = "this process"


class InProcessLink:
    """Hand requests to the server's dispatcher, on the loop that both share."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._session = Session(PEER, "", 0, _never_full, principal=PEER, is_internal=True)
        self.is_open = True

    async def exchange(self, api: Api, parts: Sequence[Part], *, timeout_s: float) -> memoryview:
        """Have a request answered and return the body, or raise the error that came."""
        if not self.is_open:
            raise DisconnectedError("The storage was closed.")
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        frame = RequestFrame(api.key, api.version_max, 0, memoryview(body))
        try:
            async with asyncio.timeout(timeout_s):
                kind, answer = await self._serve(frame, self._session)
        except TimeoutError:
            raise DisconnectedError(
                f"{api.key.name} was not answered within {timeout_s} s."
            ) from None
        joined = answer[0] if len(answer) == 1 else b"".join(answer)
        if kind is ResponseKind.ANSWER:
            return memoryview(joined)
        error = pb.ErrorResponse.FromString(bytes(joined))
        raise error_of_code(error.error_code, error.error_message)

    async def close(self) -> None:
        """Take no further requests."""
        self.is_open = False
        self._session.is_closed = True


class InProcessDialer:
    """Reach the one server there is, whatever its address."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    async def dial(self, host: str, port: int) -> InProcessLink:  # noqa: ARG002 - the seam's shape
        """Return a new link."""
        return InProcessLink(self._serve)


class _Reply:
    """Hand one answer to a thread that waits for it."""

    __slots__ = ("_given", "fault", "offset")

    def __init__(self) -> None:
        self._given = threading.Lock()
        self._given.acquire()
        self.offset = -1
        self.fault: HeadwaterError | None = None

    def give(self, offset: int, fault: HeadwaterError | None) -> None:
        """Let the waiting thread go on; only the first answer counts."""
        if self._given.locked():
            self.offset, self.fault = offset, fault
            self._given.release()

    def wait(self, timeout_s: float) -> bool:
        """Tell whether an answer came in time."""
        return self._given.acquire(timeout=timeout_s)


class InProcessWrites:
    """Write from other threads with one step on the loop, and wait for the disk alone."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._session = Session(PEER, "", 0, _never_full, principal=PEER, is_internal=True)

    def write(
        self, request: ProduceRequest | PutRequest, *, timeout_s: float
    ) -> tuple[int, HeadwaterError | None]:
        """Return the offset of the answer once rows are durable, or why they are not."""
        reply = _Reply()
        try:
            self._loop.call_soon_threadsafe(self._begin, request, reply.give)
        except RuntimeError:
            return -1, DisconnectedError("The storage was closed.")
        if not reply.wait(timeout_s):
            return -1, DisconnectedError(f"A write was not answered within {timeout_s} s.")
        if (fault := reply.fault) is not None:
            # As it would come over a wire.
            return -1, error_of_code(fault.code, str(fault))
        return reply.offset, None

    def _begin(self, request: ProduceRequest | PutRequest, told: Told) -> None:
        if not self._dispatcher.write_now(request, self._session, told):
            self._tasks.start(self._write(request, told), name="write")

    async def _write(self, request: ProduceRequest | PutRequest, told: Told) -> None:
        """Write what has to wait for something first."""
        told(*await self._dispatcher.write(request, self._session))


async def _never_full() -> None:
    """Wait for nothing: an answer that is handed over takes no room."""


# Opening a data directory inside the caller's process.

LOOPBACK = "127.0.0.1"


async def open_storage(  # noqa: PLR0913 - one argument per part that a user may set
    directory: str | Path,
    *,
    listen: bool = False,
    port: int = 0,
    settings: ClientSettings | None = None,
    server_settings: ServerSettings | None = None,
    lake: Mapping[str, str] | None = None,
    remote: str | None = None,
) -> AsyncClient:
    """Open a directory and return a client of it; closing the client closes the storage.

    The storage lives on the event loop of the caller. With `listen` other processes of this
    machine can reach it at the client's `address` as long as it is open. `lake` holds options of
    the lake's catalog that stand above those of the storage. With `remote`, a directory or an
    address such as s3://BUCKET/PREFIX, everything is shipped there, about a second behind.
    """
    path = _place(directory)
    settings_of_server = server_settings or ServerSettings(host=LOOPBACK, port=port)
    if remote is not None:
        settings_of_server = replace(settings_of_server, remote_data_dir=remote)
    server = await Server.start(
        path,
        settings_of_server,
        listens=listen,
    )
    try:
        cluster = Cluster(
            [Address(PEER, 0)],
            Pool(InProcessDialer(server.serve)),
            settings=settings or ClientSettings(),
            clock=SystemClock(),
            lakes=Lakes(config=lake or {}),
            reads=server.dispatcher,
            writes=InProcessWrites(server.dispatcher),
        )
        await cluster.connect()
    except BaseException:
        await server.stop()
        raise
    address = f"{LOOPBACK}:{server.port}" if listen else None
    return AsyncClient(cluster, address=address, directory=path, on_close=server.stop)


def _place(directory: str | Path) -> Path:
    host, _, port = directory.rpartition(":") if isinstance(directory, str) else ("", "", "")
    if host and port.isdigit() and "/" not in host and not Path(directory).exists():
        raise RequestError(
            f"{directory} looks like the address of a server, not like a directory.",
            hint=f"Use headwater.connect({str(directory)!r}); or write ./{directory}.",
        )
    return Path(directory).expanduser()


# Opening a directory for callers that do not await.


def open(  # noqa: A001, PLR0913 - headwater.open reads as it should, and takes what may be set
    directory: str | Path,
    *,
    listen: bool = False,
    port: int = 0,
    settings: ClientSettings | None = None,
    server_settings: ServerSettings | None = None,
    lake: Mapping[str, str] | None = None,
    remote: str | None = None,
) -> Client:
    """Open a data directory in this process, making it if it does not exist.

    No server has to run, and no port is taken. The directory is the one that `headwater serve`
    serves, and is held by one process at a time. With `listen` other processes of this machine
    reach the storage at the client's `address`, as long as it is open. `lake` holds options of the
    lake's catalog, such as credentials, that stand above those of the storage. With `remote`, a
    directory or an address such as s3://BUCKET/PREFIX, everything is shipped there as well, about
    a second behind; options of an object store are in `server_settings`.

    >>> import headwater
    >>> with headwater.open(directory / "data") as storage:
    ...     storage.list_databases()
    ['fluss']
    """
    return Client.start(
        open_storage(
            directory,
            listen=listen,
            port=port,
            settings=settings,
            server_settings=server_settings,
            lake=lake,
            remote=remote,
        )
    )
