"""Opens doors, keeps them open until a signal comes, and closes them.

A door is one protocol on one port. The conductor knows nothing of protocols: it starts each door,
tells where it listens, and stops all of them in the reverse order.
"""

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headwater.errors import InvalidOptionError
from headwater.runtime.events import Events
from headwater.server.listener import binding

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PORT_MAX = 65_535
_events = Events("doors")


class OpenDoor(Protocol):
    """What every door can do."""

    @property
    def name(self) -> str:
        """What the door speaks, such as `iceberg`."""
        ...

    async def start(self) -> str:
        """Listen, and return the address at which clients reach the door."""
        ...

    async def stop(self) -> None:
        """Take no more requests, end those that run, and close the port."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorListener:
    """Where a door listens, and its certificate."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_local(self) -> bool:
        """Tell whether only programs on this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def check_listener(listener: DoorListener, *, insecure: bool, has_users: bool) -> None:
    """Refuse a port that is none, half a certificate, and an open door to other machines."""
    if not 0 <= listener.port <= PORT_MAX:
        raise InvalidOptionError(f"{listener.port} is not a port.", hint="0 picks a free one.")
    if (listener.certificate is None) != (listener.key is None):
        raise InvalidOptionError(
            "A certificate and its key belong together.",
            hint="Pass both --door-certificate and --door-key.",
        )
    if insecure or listener.is_local:
        return
    if not has_users:
        raise InvalidOptionError(
            f"Everybody who reaches {listener.host} could read all tables.",
            hint="Serve a server with users (--at HOST:PORT, without --user), so that callers "
            "log in; or pass --insecure if that is what you want.",
        )
    if listener.certificate is None:
        raise InvalidOptionError(
            f"Passwords and rows would travel to {listener.host} without encryption.",
            hint="Pass --door-certificate and --door-key, or --insecure if you trust the network.",
        )


def listening_socket(listener: DoorListener, *, option: str) -> socket.socket:
    """Bind the port of a door, or explain why that cannot be done."""
    with binding(listener.host, listener.port, option=option):
        (family, *_), *_ = socket.getaddrinfo(listener.host, None, type=socket.SOCK_STREAM)
        return socket.create_server((listener.host, listener.port), family=family)


async def keep_open(doors: Sequence[OpenDoor], *, stop: asyncio.Event | None = None) -> None:
    """Open doors, wait for SIGINT or SIGTERM, and close them; one that fails closes the others."""
    stop = asyncio.Event() if stop is None else stop
    loop = asyncio.get_running_loop()
    # Before the start: whoever sees a door open may stop it at once.
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    opened: list[OpenDoor] = []
    try:
        for door in doors:
            address = await door.start()
            opened.append(door)
            _events.info("open", door=door.name, address=address)
        await stop.wait()
    finally:
        for door in reversed(opened):
            await door.stop()
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    _events.info("closed", doors=len(opened))
