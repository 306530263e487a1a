"""Reading from logs: long polls with columns and filters pushed down."""

import asyncio

from headwater.server.context import FAULT_DELAY_S, Context
from headwater.server.handlers.fetch_plan import TableFetch, resolve_fetch
from headwater.server.handlers.fetch_read import Fetched, read_fetch
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.fetch_answer import encode_fetch_answer
from headwater.wire.fields import Part

WAIT_MS_MAX = 60_000


async def fetch_log(request: pb.FetchLogRequest, context: Context) -> list[Part]:
    """Answer with what is there, or wait for more.

    1. resolve what is asked to tablets and selections
    2. wait until the client has read its earlier answers
    3. read every bucket within the limits
    4. with too little read, wait for a high watermark to move, and read again
    """
    tables = [await resolve_fetch(table, context) for table in request.tables_req]
    clock = context.services.clock
    wait_ms = min(max(request.max_wait_ms, 0), WAIT_MS_MAX)
    deadline = clock.monotonic() + wait_ms / 1000
    while True:
        wake = _listen(tables, context)
        try:
            fetched = await _read_in_turn(tables, request, context)
            left_s = deadline - clock.monotonic()
            if _is_enough(fetched, request) or left_s <= 0 or context.services.is_stopping:
                break
            if fetched.errors:
                # Some clients ask again at once, for ever: they shall not do so at full speed.
                await clock.sleep(min(left_s, FAULT_DELAY_S))
                break
            _hurry(tables, wake)
            context.session.received()
            await _wait(wake, left_s)
        finally:
            _unlisten(tables, wake, context)
    for code, reason in fetched.errors:
        context.bucket_refused(ApiKey.FETCH_LOG, code, reason)
    return encode_fetch_answer(fetched.answers)


async def _read_in_turn(
    tables: list[TableFetch], request: pb.FetchLogRequest, context: Context
) -> Fetched:
    bytes_max = min(max(request.max_bytes, 0), context.services.settings.response_bytes_max)
    async with context.session.turn:
        await context.session.writable()
        return await read_fetch(tables, bytes_max=bytes_max)


def _is_enough(fetched: Fetched, request: pb.FetchLogRequest) -> bool:
    return fetched.size >= max(request.min_bytes, 1) or fetched.has_moved


def _listen(tables: list[TableFetch], context: Context) -> "Wake":
    wake = Wake()
    context.services.polls.add(wake)
    for table in tables:
        for tablet in table.tablets:
            tablet.listen(wake)
    return wake


def _unlisten(tables: list[TableFetch], wake: "Wake", context: Context) -> None:
    context.services.polls.discard(wake)
    for table in tables:
        for tablet in table.tablets:
            tablet.unlisten(wake)


def _hurry(tables: list[TableFetch], wake: "Wake") -> None:
    for table in tables:
        for tablet in table.tablets:
            tablet.hurry(wake)


async def _wait(wake: "Wake", seconds: float) -> None:
    handle = asyncio.get_running_loop().call_later(seconds, wake)
    try:
        await wake.called
    finally:
        handle.cancel()


class Wake:
    """Be called by whatever ends a wait: new rows, a deadline, a stopping server."""

    def __init__(self) -> None:
        self.called: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __call__(self) -> None:
        """End the wait."""
        if not self.called.done():
            self.called.set_result(None)
