"""The door of a TLS port: who has not finished a handshake costs little, and not many may wait.

A TLS handshake costs memory and processor time before anything is known of a client. So sockets
are accepted here first. A stranger waits as a bare socket until its first bytes are there; if they
are not those of TLS, it is told so and closed. All strangers of a server together, and those of one
address, are limited: the oldest makes room for a new one.
"""

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from headwater.runtime.events import Events, Sparing
from headwater.server.logins import network_of

_events = Events("listener")
ACCEPTS_PER_TURN = 4
BACKLOG = 512
FULL_PAUSE_S = 1.0
FIRST_BYTES = 12
"""How much of a request without TLS is looked at: its head."""
HANDSHAKE = 0x16
"""How every TLS client begins; a request begins with a length, which is never so large."""
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Stranger(Protocol):
    """Somebody at the door who is not known yet."""

    @property
    def network(self) -> str:
        """Where they come from."""
        ...

    @property
    def has_asked(self) -> bool:
        """Whether anything has come from them."""
        ...

    def turn_away(self, reason: str) -> None:
        """Close their connection."""
        ...


class Strangers:
    """Those who are at the door, oldest first, and no more than there is room for."""

    def __init__(self, *, count_max: int, per_network_max: int) -> None:
        self._count_max = count_max
        self._per_network_max = per_network_max
        self._waiting: dict[Stranger, str] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, stranger: Stranger) -> bool:
        return stranger in self._waiting

    def add(self, newcomer: Stranger) -> None:
        """Let somebody wait; the oldest of the busiest address goes if that is one too many.

        One who has sent nothing goes first, so that a running login is not cut off.
        """
        own = newcomer.network
        self._waiting[newcomer] = own
        self._counts[own] += 1
        if self._counts[own] > self._per_network_max:
            crowded = own
        elif len(self._waiting) > self._count_max:
            crowded = self._counts.most_common(1)[0][0]
        else:
            return
        others = [
            each
            for each, network in self._waiting.items()
            if each is not newcomer and network == crowded
        ]
        oldest = min(others, key=lambda each: each.has_asked, default=newcomer)
        self.remove(oldest)
        oldest.turn_away("others are waiting to log in, and this client has not done so")

    def remove(self, stranger: Stranger) -> None:
        """Forget somebody, who is known now or gone."""
        network = self._waiting.pop(stranger, None)
        if network is None:
            return
        self._counts[network] -= 1
        if not self._counts[network]:
            del self._counts[network]


class Door:
    """Accept sockets, and let those that speak TLS in."""

    def __init__(  # noqa: PLR0913 - what a door asks of its house
        self,
        make: "Callable[[Guest], asyncio.BaseProtocol]",
        strangers: Strangers,
        *,
        context: Callable[[], ssl.SSLContext],
        refusal: Callable[[bytes], bytes],
        within_s: float,
        sparing: Sparing,
        refused: Callable[[str, str], None] = lambda _address, _reason: None,
    ) -> None:
        self.make = make
        self.context = context
        self.refusal = refusal
        self.within_s = within_s
        self.strangers = strangers
        self.guests: set[Guest] = set()
        self._sparing = sparing
        self.refused = refused
        self._sockets: list[socket.socket] = []
        self.port = 0

    async def open(self, host: str, port: int) -> None:
        """Listen on all addresses of a host."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self._listen(socket.socket(family, kind, protocol), address)
        except BaseException:
            self.close()
            raise
        self.port = self._sockets[0].getsockname()[1]
        for each in self._sockets:
            loop.add_reader(each.fileno(), self._accept, each)

    def _listen(self, opened: socket.socket, address: tuple[object, ...]) -> None:
        self._sockets.append(opened)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if opened.family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.setblocking(False)
        opened.bind(address)
        opened.listen(BACKLOG)

    def close(self) -> None:
        """Accept no more, and send those away who are not in yet."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each.fileno())
            each.close()
        self._sockets = []
        for guest in tuple(self.guests):
            guest.turn_away("the server is stopping")

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                opened, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as fault:
                if fault.errno not in _NO_ROOM:
                    raise
                self._pause(listening, fault)
                return
            opened.setblocking(False)
            Guest(self, opened, str(address[0])).wait()

    def _pause(self, listening: socket.socket, fault: OSError) -> None:
        """Accept nothing for a moment when there are no more files: it would fail again."""
        loop = asyncio.get_running_loop()
        _events.error("cannot accept connections", reason=str(fault))
        loop.remove_reader(listening.fileno())
        loop.call_later(FULL_PAUSE_S, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            loop = asyncio.get_running_loop()
            loop.add_reader(listening.fileno(), self._accept, listening)

    def tell(self, peer: str, reason: str) -> None:
        """Log that somebody was not let in."""
        if (left_out := self._sparing.turn()) is not None:
            _events.warning("connection dropped", peer=peer, reason=reason, **left_out)


class Guest:
    """One socket until its handshake is done."""

    def __init__(self, door: Door, opened: socket.socket, address: str) -> None:
        self._door = door
        self._socket = opened
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._handshake: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.network = network_of(address)
        self.has_asked = False

    def wait(self) -> None:
        """Wait for the first bytes."""
        self._door.guests.add(self)
        self._loop.add_reader(self._socket.fileno(), self._look)
        self._deadline = self._loop.call_later(
            self._door.within_s, self.turn_away, "no TLS handshake in time"
        )
        self._door.strangers.add(self)

    def turn_away(self, reason: str) -> None:
        """Close the connection and say why in the log."""
        if self in self._door.guests:
            self._door.tell(self._address, reason)
        self.leave()
        if self._handshake is not None:
            self._handshake.cancel()
        else:
            self._close()

    def leave(self) -> None:
        """Stop to be a stranger at the door."""
        self._door.guests.discard(self)
        self._door.strangers.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _look(self) -> None:
        """Look at the first bytes without taking them."""
        try:
            first = self._socket.recv(FIRST_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self.leave()
            self._close()
        elif first[0] != HANDSHAKE:
            self._refuse(first)
        else:
            self._loop.remove_reader(self._socket.fileno())
            self.has_asked = True
            self._handshake = self._loop.create_task(self._shake_hands())

    def _refuse(self, first: bytes) -> None:
        with suppress(OSError):
            self._socket.send(self._door.refusal(first))
            # What is left unread would turn the end into a reset, and the answer would be lost.
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.recv(64 * 1024)
        self.turn_away("this port speaks TLS, and the client does not")

    async def _shake_hands(self) -> None:
        try:
            await self._loop.connect_accepted_socket(
                partial(self._door.make, self),
                self._socket,
                ssl=self._door.context(),
                ssl_handshake_timeout=self._door.within_s,
            )
        except OSError as fault:
            reason = f"the TLS handshake failed: {reason_of(fault)}"
            if self in self._door.guests:
                self._door.tell(self._address, reason)
            if is_about_certificate(fault):
                self._door.refused(self._address, reason)
        finally:
            self.leave()


def is_about_certificate(fault: OSError) -> bool:
    """Tell whether a client was refused for its certificate, or for having none."""
    return (
        isinstance(fault, ssl.SSLCertVerificationError)
        or getattr(fault, "reason", "") == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    )


def reason_of(fault: OSError) -> str:
    """Say why a handshake failed, in the words of the library."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {fault.verify_message}"
    reason = getattr(fault, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(fault)
