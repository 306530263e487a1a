"""The open links of a client, one to each server."""

import asyncio
from dataclasses import dataclass

from headwater.client.links import Dialer, Link
from headwater.errors import ClosedError, DisconnectedError
from headwater.runtime.tasks import shared


@dataclass(frozen=True, slots=True)
class Address:
    """Say where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Pool:
    """Dial servers when they are needed first, and again when their link broke."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._dialing: dict[Address, asyncio.Task[Link]] = {}
        self._links: dict[Address, Link] = {}
        self._is_closed = False

    @property
    def reached(self) -> tuple[Address, ...]:
        """Return the servers to which a link is open."""
        return tuple(address for address, link in self._links.items() if link.is_open)

    async def link(self, address: Address) -> Link:
        """Return the link to a server, dialling it if there is none."""
        if self._is_closed:
            raise ClosedError("The client was closed.", hint="Open or connect again.")
        link = self._links.get(address)
        if link is not None and link.is_open:
            return link
        dialing = self._dialing.get(address)
        if dialing is None:
            dialing = asyncio.get_running_loop().create_task(self._dial(address))
            self._dialing[address] = dialing
        # Whoever gives up waiting leaves the dialling to the others.
        return await shared(dialing)

    async def _dial(self, address: Address) -> Link:
        try:
            link = await self._dialer.dial(address.host, address.port)
            if self._is_closed:
                await link.close()
                raise DisconnectedError("The client was closed.")
            self._links[address] = link
            return link
        finally:
            del self._dialing[address]

    async def close(self) -> None:
        """Close every link; calls under way fail."""
        self._is_closed = True
        await asyncio.gather(*self._dialing.values(), return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._links.clear()
