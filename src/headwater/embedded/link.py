"""A link to a server in the same process: requests become calls."""

import asyncio
from collections.abc import Sequence

from headwater.errors import DisconnectedError, error_of_code
from headwater.server.connection import Part, Serve
from headwater.server.session import Session
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import Api
from headwater.wire.frames import RequestFrame, ResponseKind

PEER = "this process"


class InProcessLink:
    """Hand requests to the server's dispatcher, on the loop that both share."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._session = Session(PEER, "", 0, _never_full, principal=PEER)
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


async def _never_full() -> None:
    """Wait for nothing: an answer that is handed over takes no room."""
