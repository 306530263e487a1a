"""Logins: passwords are checked in threads of their own, and guesses are slowed.

A password hash takes a core for tens of milliseconds on purpose, so whoever guesses could keep
others from logging in. Checks therefore have a small pool of their own. Strangers from one address
take turns, and each turn begins with a pause that doubles with every failure of that address or of
that user. The pause for failures of the user alone is short: a user who is under attack from
elsewhere still gets in. Where a user has logged in from an address before, only their own failures
from there count.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address

from headwater.errors import AuthenticationError, HeadwaterError, InvalidOptionError
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.runtime.tasks import to_the_end
from headwater.server.security import NAME_LENGTH_MAX, Users, stamp_of

_events = Events("logins")
LOGIN_THREADS = 2
FREE_FAILURES = 3
"""Failures that cost nothing, since people mistype."""
PAUSE_FIRST_S = 0.25
PAUSE_MAX_S = 5.0
USER_PAUSE_MAX_S = 1.0
FORGOTTEN_AFTER_S = 900.0
KEPT_MAX = 10_000
LINES_MAX = 10
_DOUBLINGS_MAX = 16
_IPV6_PREFIX = 64

Key = tuple[str, ...]


@dataclass(slots=True)
class _Failures:
    count: int
    last_at: float


class Guesses:
    """Remember who failed to log in, and tell how long the next attempt has to wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[Key, _Failures] = OrderedDict()
        self._known: OrderedDict[Key, None] = OrderedDict()

    def is_known(self, address: str, user: str) -> bool:
        """Tell whether this user has logged in from this address before."""
        return (address, user) in self._known

    def pause_s(self, address: str, user: str) -> float:
        """Return how long an attempt has to wait."""
        if self.is_known(address, user):
            return self._pause_s(("both", address, user), PAUSE_MAX_S)
        return max(
            self._pause_s(("address", address), PAUSE_MAX_S),
            self._pause_s(("user", user), USER_PAUSE_MAX_S),
        )

    def failed(self, address: str, user: str) -> None:
        """Remember a failure."""
        for key in _keys(address, user):
            count = self._count(key) + 1
            self._failures[key] = _Failures(count, self._clock.monotonic())
            self._failures.move_to_end(key)
        while len(self._failures) > KEPT_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, user: str) -> None:
        """Take back the failure that was noted for this attempt, and remember the success."""
        for key in _keys(address, user):
            if (noted := self._failures.get(key)) is not None:
                noted.count -= 1
        self._failures.pop(("both", address, user), None)
        self._known[address, user] = None
        self._known.move_to_end((address, user))
        while len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)

    def count(self, address: str) -> int:
        """Return how many attempts from an address have failed lately."""
        return self._count(("address", address))

    def _count(self, key: Key) -> int:
        noted = self._failures.get(key)
        if noted is None or self._clock.monotonic() - noted.last_at > FORGOTTEN_AFTER_S:
            return 0
        return noted.count

    def _pause_s(self, key: Key, pause_max_s: float) -> float:
        over = self._count(key) - FREE_FAILURES
        if over < 0:
            return 0.0
        return min(PAUSE_FIRST_S * 2.0 ** min(over, _DOUBLINGS_MAX), pause_max_s)


class Logins:
    """Check passwords, a few at a time."""

    def __init__(self, users: Users, clock: Clock) -> None:
        self.users = users
        self._stamp_seen = users.stamp
        self._clock = clock
        self._guesses = Guesses(clock)
        self._turns: dict[str, _Turn] = {}
        self._sparing = Sparing(clock, lines_max=LINES_MAX)
        self._threads = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="headwater-login")

    async def check(self, name: str, password: str, *, address: str) -> str:
        """Return what a user logs in with; refuse wrong ones, after a pause if there were many."""
        network, user = network_of(address), name[:NAME_LENGTH_MAX]
        async with self._turn(network, user):
            if pause_s := self._guesses.pause_s(network, user):
                await self._clock.sleep(pause_s)
            # Noted before the result is known: who goes away meanwhile has guessed as well.
            self._guesses.failed(network, user)
            loop = asyncio.get_running_loop()
            try:
                checked = loop.run_in_executor(self._threads, self.users.check, name, password)
                credential = await to_the_end(checked)
            except AuthenticationError as fault:
                self._tell(address, user, str(fault))
                raise
            self._guesses.succeeded(network, user)
            return credential

    def malformed(self, reason: str, *, address: str) -> AuthenticationError:
        """Note a failure without a name, and return the error for the client."""
        self._guesses.failed(network_of(address), "")
        self._tell(address, "", reason)
        return AuthenticationError(reason)

    async def reload(self) -> bool:
        """Take over what has changed in the file of users; tell whether anything has.

        A file that cannot be used changes nothing, so that a mistake locks nobody out.
        """
        path = self.users.path
        if path is None:
            return False
        stamp = await asyncio.to_thread(stamp_of, path)
        if stamp == self._stamp_seen:
            return False
        self._stamp_seen = stamp
        try:
            if stamp is None:
                raise InvalidOptionError(f"{path} is gone.", hint="Put it back.")
            self.users = await asyncio.to_thread(Users.load, path)
        except (HeadwaterError, OSError) as fault:
            _events.error("users not reloaded", reason=str(fault), in_force=len(self.users))
            return False
        _events.info("users reloaded", users=len(self.users))
        return True

    def stop(self) -> None:
        """Check no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _tell(self, address: str, user: str, reason: str) -> None:
        if (left_out := self._sparing.turn()) is not None:
            failures = self._guesses.count(network_of(address))
            fields = {"address": address, "user": user, "reason": reason}
            _events.warning("login failed", **fields, failures=failures, **left_out)

    @asynccontextmanager
    async def _turn(self, network: str, user: str) -> AsyncIterator[None]:
        """Let strangers from one address in one at a time."""
        if self._guesses.is_known(network, user):
            yield
            return
        turn = self._turns.setdefault(network, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                self._turns.pop(network, None)


class _Turn:
    __slots__ = ("lock", "wanted")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.wanted = 0


def network_of(address: str) -> str:
    """Return what belongs to one party: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((int(parsed), _IPV6_PREFIX), strict=False))


def _keys(address: str, user: str) -> tuple[Key, ...]:
    return ("address", address), ("user", user), ("both", address, user)
