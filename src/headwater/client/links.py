"""The seam between the client and whatever answers it: a socket, or a server in this process."""

from collections.abc import Sequence
from typing import Protocol

from headwater.wire.apis import Api
from headwater.wire.fields import Part


class Link(Protocol):
    """Carry requests to one server; many may be under way at a time."""

    async def exchange(self, api: Api, parts: Sequence[Part], *, timeout_s: float) -> memoryview:
        """Send a request and return the body of its answer, or raise the error that came.

        The request is on its way before the first wait, so requests leave in the order of calls.
        """
        ...

    @property
    def is_open(self) -> bool:
        """Tell whether requests can still be sent."""
        ...

    async def close(self) -> None:
        """Let go of the server; requests under way fail."""
        ...


class Dialer(Protocol):
    """Make links."""

    async def dial(self, host: str, port: int) -> Link:
        """Reach a server, or raise a DisconnectedError."""
        ...
