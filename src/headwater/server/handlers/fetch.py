"""Reading from logs: long polls with columns and filters pushed down."""

import asyncio

from headwater.runtime.turns import in_turns
from headwater.server.context import FAULT_DELAY_S, Context
from headwater.server.fan_out import SharedReads
from headwater.server.handlers.fetch_plan import TableFetch, resolve_fetch
from headwater.server.handlers.fetch_read import Fetched, read_fetch
from headwater.tablet.log_tablet import LogTablet
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.fetch_answer import joined_answer
from headwater.wire.fields import Part

WAIT_MS_MAX = 60_000


async def fetch_log(request: pb.FetchLogRequest, context: Context) -> list[Part]:
    """Answer with what is there, or wait for more.

    1. resolve what is asked to tablets and selections, and listen to them
    2. wait until the client has read its earlier answers
    3. read every bucket within the limits, or take what others have read
    4. with too little read, wait for a high watermark to move and for a turn, and read again
    """
    tables = [
        await resolve_fetch(table, context, takes_joined=request.takes_joined)
        async for table in in_turns(request.tables_req)
    ]
    tablets = [tablet for table in tables for tablet in table.tablets]
    wake = Wake(context)
    _listen(tablets, wake, context)
    try:
        fetched = await _fetch(tables, tablets, request, wake=wake, context=context)
    finally:
        _unlisten(tablets, wake, context)
    async for code, reason in in_turns(fetched.errors):
        context.bucket_refused(ApiKey.FETCH_LOG, code, reason)
    return joined_answer(fetched.tables)


async def _fetch(
    tables: list[TableFetch],
    tablets: list[LogTablet],
    request: pb.FetchLogRequest,
    *,
    wake: "Wake",
    context: Context,
) -> Fetched:
    clock = context.services.clock
    wait_ms = min(max(request.max_wait_ms, 0), WAIT_MS_MAX)
    deadline = clock.monotonic() + wait_ms / 1000
    while True:
        wake.rearm()
        fetched = await _read_in_turn(tables, request, context)
        if _is_enough(fetched, request) or context.services.is_stopping:
            return fetched
        left_s = deadline - clock.monotonic()
        if left_s <= 0:
            return fetched
        if fetched.errors:
            # Some clients ask again at once, for ever: they shall not do so at full speed.
            await clock.sleep(min(left_s, FAULT_DELAY_S))
            return fetched
        for tablet in tablets:
            tablet.hurry(wake)
        context.session.received()
        await wake.wait(left_s)


async def _read_in_turn(
    tables: list[TableFetch], request: pb.FetchLogRequest, context: Context
) -> Fetched:
    services, session = context.services, context.session
    bytes_max = min(max(request.max_bytes, 0), services.settings.response_bytes_max)
    async with session.turn:
        await session.writable()
        # Tails wait, and share what they read. Who does not wait wants what the disk holds now,
        # as an audit does, not what was read of it before.
        reads = services.reads if request.max_wait_ms > 0 else SharedReads(bytes_max=0)
        async with services.answers.room(bytes_max) as granted:
            return await read_fetch(tables, reads, bytes_max=granted)


def _is_enough(fetched: Fetched, request: pb.FetchLogRequest) -> bool:
    return fetched.size >= max(request.min_bytes, 1) or fetched.has_moved


def _listen(tablets: list[LogTablet], wake: "Wake", context: Context) -> None:
    context.services.polls.add(wake)
    for tablet in tablets:
        tablet.listen(wake)


def _unlisten(tablets: list[LogTablet], wake: "Wake", context: Context) -> None:
    context.services.polls.discard(wake)
    for tablet in tablets:
        tablet.unlisten(wake)


class Wake:
    """Be called by whatever ends a wait: new rows, a deadline, a stopping server.

    However often it is called, the wait ends once, when the fetch has its turn.
    """

    def __init__(self, context: Context) -> None:
        self._turns = context.services.turns
        self._session = context.session
        self._waiting: asyncio.Future[None] | None = None
        self._is_called = False

    def __call__(self) -> None:
        """End the wait, or the next one if there is none yet."""
        if not self._is_called and self._waiting is not None:
            self._turns.queue(self._session, self._waiting)
        self._is_called = True

    def rearm(self) -> None:
        """Forget earlier calls, before looking at what they told of."""
        self._is_called = False

    async def wait(self, seconds: float) -> None:
        """Wait for a call since the last `rearm`, and then for a turn."""
        if self._is_called:
            await self._turns.turn(self._session)
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        handle = loop.call_later(seconds, self)
        try:
            await self._waiting
        finally:
            handle.cancel()
            self._waiting = None
