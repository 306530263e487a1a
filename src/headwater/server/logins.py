"""Users, passwords and logins: passwords are checked in threads, and guessing is slowed down."""

import asyncio
import fcntl
import hashlib
import hmac
import os
import re
import stat
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import ParamSpec, TypeVar

from headwater import errors
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.events import Events, Sparing
from headwater.runtime.tasks import to_the_end
from headwater.server.tokens import Identity, Tokens
from headwater.store.local import Stamp, save_private, stamp_of
from headwater.wire import sasl

# Users and their passwords: a file of names with SCRAM verifiers. Files of older versions have
# scrypt hashes, which only PLAIN can be checked against.

ITERATIONS = 100_000
_COST, _BLOCK, _LANES = 2**14, 8, 1
_SALT_BYTES = 16
NAME_LENGTH_MAX = 128
_NAME = re.compile(r"[A-Za-z0-9_.@\-]{1,128}\Z")
_SCRYPT = r"scrypt\$[0-9a-f]{32}\$[0-9a-f]{128}"
_SHA_256 = r"SCRAM-SHA-256(?:\$[1-9][0-9]{3,6})(?:\$[0-9a-f]{32})(?:\$[0-9a-f]{64}){2}"
_SHA_512 = r"SCRAM-SHA-512(?:\$[1-9][0-9]{3,6})(?:\$[0-9a-f]{32})(?:\$[0-9a-f]{128}){2}"
_LINE = re.compile(rf"([^:]+):({_SCRYPT}|{_SHA_256},{_SHA_512})\Z")
# Checked for an unknown user, so that the response takes as long as for a known one.
_NOBODY = "scrypt$" + "00" * _SALT_BYTES + "$" + "00" * 64
_NOBODY_SCRAM = sasl.Verifier(
    sasl.SCRAM_SHA_512, ITERATIONS, bytes(_SALT_BYTES), bytes(64), bytes(64)
)
# Others must not read the hashes, to guess passwords from, nor write them.
_MODE_REFUSED = stat.S_IWGRP | stat.S_IRWXO


class Users:
    """Who may connect."""

    def __init__(
        self, hashes: Mapping[str, str], *, path: Path | None = None, stamp: Stamp | None = None
    ) -> None:
        self._hashes = hashes
        self.path = path
        self.stamp = stamp
        self.outdated = tuple(sorted(name for name, held in hashes.items() if _is_scrypt(held)))
        """Those whose password was set by an older version: they cannot log in with SCRAM."""
        counts = Counter(_verifiers(each)[0].iterations for each in hashes.values() if "," in each)
        # What most users have is what an unknown user is told.
        self._iterations = max(counts, key=lambda each: counts[each], default=ITERATIONS)

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def credentials(self) -> Mapping[str, str]:
        """What each user's password is checked against."""
        return self._hashes

    @classmethod
    def load(cls, path: Path) -> "Users":
        """Read the users of a file with lines of `name:hash`."""
        # Before it is read, so that a concurrent change counts as a later one.
        stamp = stamp_of(path)
        if stamp is None:
            return cls({}, path=path)
        _check_mode(path)
        hashes = {}
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            found = _LINE.match(line.decode("utf-8", "replace"))
            if found is None:
                raise errors.InvalidOptionError(
                    f"Line {number} of {path} is not a user entry.",
                    hint=f"Add users with: headwater user add {path} NAME",
                )
            hashes[found[1]] = found[2]
        return cls(hashes, path=path, stamp=stamp)

    def with_user(self, name: str, password: str) -> "Users":
        """Add a user, or change the password of one."""
        if not _NAME.match(name):
            raise errors.InvalidNameError(
                f"The user name {name!r} may only contain letters, digits and '_.@-', at most 128."
            )
        if not password:
            raise errors.InvalidOptionError("The password is empty.", hint="Enter a password.")
        return Users({**self._hashes, name: verifiers_of(password)})

    def without_user(self, name: str) -> "Users":
        """Remove a user."""
        if name not in self._hashes:
            known = ", ".join(sorted(self._hashes)) or "nobody"
            raise errors.InvalidNameError(
                f"There is no user {name!r}.", hint=f"The users are {known}."
            )
        return Users({each: held for each, held in self._hashes.items() if each != name})

    def save(self, path: Path) -> None:
        """Write the file, readable by its owner only."""
        lines = (f"{name}:{hashed}\n" for name, hashed in self._hashes.items())
        save_private(path, "".join(lines))

    def check(self, name: str, password: str) -> str:
        """Return a user's credential; the error does not say whether name or password is wrong.

        Each failure takes as long as a success, so that timing reveals nothing either.
        """
        held = self._hashes.get(name, "")
        # With both kinds in the file, both are computed for everybody.
        is_right = False
        if self.outdated:
            is_right |= _matches(password, held if _is_scrypt(held) else _NOBODY)
        if len(self.outdated) < len(self) or not self:
            verifier = _NOBODY_SCRAM if not held or _is_scrypt(held) else _verifiers(held)[-1]
            is_right |= verifier.matches(password)
        if not is_right or not held or not password:
            raise errors.AuthenticationError("The user name or the password is wrong.")
        return held

    def verifier(self, name: str, mechanism: str, *, secret: bytes) -> tuple[sasl.Verifier, str]:
        """Return what SCRAM is checked against, and the user's credential.

        An unknown user gets a salt of their own, always the same, and keys that nobody has.
        """
        held = self._hashes.get(name, "")
        if held and not _is_scrypt(held):
            for verifier in _verifiers(held):
                if verifier.mechanism == mechanism:
                    return verifier, held
        salt = hmac.digest(secret, f"{mechanism}:{name}".encode(), "sha256")[:_SALT_BYTES]
        key = random_bytes(hashlib.new(sasl.DIGESTS[mechanism]).digest_size)
        return sasl.Verifier(mechanism, self._iterations, salt, key, key), ""


@contextmanager
def editing(path: Path) -> Iterator[Users]:
    """Lock a file of users while it is edited."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Users.load(path)
    finally:
        os.close(descriptor)


def _check_mode(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _MODE_REFUSED:
        raise errors.InvalidOptionError(
            f"{path} has mode {mode:03o}: other users of this machine can read or change it.",
            hint=f"Run: chmod 600 {path}",
        )


def verifiers_of(password: str) -> str:
    """Make the verifiers of a password, each with a fresh salt, as they are kept in the file."""
    texts = []
    for mechanism in (sasl.SCRAM_SHA_256, sasl.SCRAM_SHA_512):
        salt = random_bytes(_SALT_BYTES)
        made = sasl.Verifier.of(mechanism, password, salt=salt, iterations=ITERATIONS)
        values = (value.hex() for value in (salt, made.stored_key, made.server_key))
        texts.append("$".join((mechanism, str(ITERATIONS), *values)))
    return ",".join(texts)


def _verifiers(held: str) -> tuple[sasl.Verifier, ...]:
    found = []
    for text in held.split(","):
        mechanism, iterations, *values = text.split("$")
        found.append(sasl.Verifier(mechanism, int(iterations), *map(bytes.fromhex, values)))
    return tuple(found)


def _is_scrypt(held: str) -> bool:
    return held.startswith("scrypt$")


def _matches(password: str, hashed: str) -> bool:
    _, salt, digest = hashed.split("$")
    return hmac.compare_digest(_scrypt(password, bytes.fromhex(salt)).hex(), digest)


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=_BLOCK, p=_LANES)


# Logins: a password hash takes a core for tens of milliseconds on purpose, so guessing could keep
# others from logging in. Checks therefore have a small pool of their own. Unknown clients from one
# address take turns, and each turn begins with a pause that doubles with every failure of that
# address or of that user. The pause for failures of the user alone is short: a user who is attacked
# from elsewhere still gets in. If a user has logged in from an address before, only their own
# failures from there count.

_events = Events("logins")
LOGIN_THREADS = 2
FREE_FAILURES = 3
"""Failures without a pause, since people mistype."""
PAUSE_FIRST_S = 0.25
PAUSE_MAX_S = 5.0
USER_PAUSE_MAX_S = 1.0
FORGOTTEN_AFTER_S = 900.0
KEPT_MAX = 10_000
LINES_MAX = 10
_DOUBLINGS_MAX = 16
_IPV6_PREFIX = 64
_SECRET_BYTES = 32

Key = tuple[str, ...]
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Failures:
    count: int
    last_at: float


class Guesses:
    """Remember failed logins, and how long the next attempt has to wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[Key, _Failures] = OrderedDict()
        self._known: OrderedDict[Key, None] = OrderedDict()

    def is_known(self, address: str, user: str) -> bool:
        """Tell whether this user has logged in from this address before."""
        return (address, user) in self._known

    def pause_s(self, address: str, user: str) -> float:
        """Compute how long an attempt has to wait."""
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
        """Undo the failure that was recorded for this attempt, and remember the success."""
        for key in _keys(address, user):
            if (noted := self._failures.get(key)) is not None:
                noted.count -= 1
        self._failures.pop(("both", address, user), None)
        self._known[address, user] = None
        self._known.move_to_end((address, user))
        while len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)

    def count(self, address: str) -> int:
        """Count the recent failures from an address."""
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
    """Know who may connect and with which mechanisms, and check passwords, a few at a time."""

    def __init__(
        self,
        users: Users,
        clock: Clock,
        *,
        mechanisms: tuple[str, ...] = (),
        tokens: Tokens | None = None,
        secret: bytes = b"",
    ) -> None:
        self.users = users
        self.tokens = tokens
        self.secret = secret or random_bytes(_SECRET_BYTES)
        self._mechanisms = mechanisms
        self._stamp_seen = users.stamp
        self._clock = clock
        self._guesses = Guesses(clock)
        self._turns: dict[str, _Turn] = {}
        self._sparing = Sparing(clock, lines_max=LINES_MAX)
        self._threads = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="headwater-login")
        self._check_mechanisms()

    def _check_mechanisms(self) -> None:
        """Refuse mechanisms with which nobody could log in."""
        needs_users = [each for each in self._mechanisms if each != sasl.OAUTHBEARER]
        if needs_users and not len(self.users):
            raise errors.InvalidOptionError(
                f"{needs_users[0]} needs users.", hint="Pass a file of users with --users."
            )
        if sasl.OAUTHBEARER in self._mechanisms and self.tokens is None:
            raise errors.InvalidOptionError(
                f"{sasl.OAUTHBEARER} needs keys to check tokens with.", hint="Set --token-keys."
            )
        self._tell_of_outdated()

    def _tell_of_outdated(self) -> None:
        if self.users.outdated:
            _events.warning(
                "users without SCRAM: their passwords were set by an older version",
                users=", ".join(self.users.outdated),
                hint="Set their passwords anew with: headwater user add FILE NAME. Until then "
                "SCRAM is not offered, unless --mechanisms names it.",
            )

    def offered(self, *, in_clear: bool) -> tuple[str, ...]:
        """List the mechanisms, the strongest first; in the clear none that sends the secret.

        SCRAM is offered once all users have a verifier for it: a user without one would be told
        that the password is wrong.
        """
        found: tuple[str, ...] = self._mechanisms
        if not found and len(self.users):
            found = (sasl.PLAIN,) if self.users.outdated else (*sasl.DIGESTS, sasl.PLAIN)
        if not self._mechanisms and self.tokens is not None:
            found = (*found, sasl.OAUTHBEARER)
        return tuple(each for each in found if not in_clear or each in sasl.DIGESTS)

    @asynccontextmanager
    async def attempt(self, name: str, *, address: str) -> AsyncIterator[None]:
        """Wait if there were failures; an AuthenticationError in the context is another one."""
        network, user = network_of(address), name[:NAME_LENGTH_MAX]
        async with self._turn(network, user):
            if pause_s := self._guesses.pause_s(network, user):
                await self._clock.sleep(pause_s)
            # Recorded before the result is known: a client that disconnects meanwhile has guessed
            # too.
            self._guesses.failed(network, user)
            try:
                yield
            except errors.AuthenticationError as fault:
                self._tell(address, user, str(fault))
                raise
            self._guesses.succeeded(network, user)

    async def check(self, name: str, password: str, *, address: str) -> str:
        """Return the credential of a user; a wrong password fails, after a pause if repeated."""
        async with self.attempt(name, address=address):
            return await self._aside(self.users.check, name, password)

    async def check_token(self, token: str, *, address: str) -> Identity:
        """Return who a token names, if it is genuine and has not expired."""
        assert self.tokens is not None, "offered only with keys"
        async with self.attempt("", address=address):
            return await self._aside(self.tokens.check, token)

    async def _aside(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await to_the_end(loop.run_in_executor(self._threads, partial(work, *args, **named)))

    def malformed(self, reason: str, *, address: str) -> errors.AuthenticationError:
        """Record a failure without a name, and return the error for the client."""
        self._guesses.failed(network_of(address), "")
        self._tell(address, "", reason)
        return errors.AuthenticationError(reason)

    async def reload(self) -> bool:
        """Load changes of the file of users; tell whether there were any.

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
                raise errors.InvalidOptionError(f"{path} is missing.", hint="Put it back.")
            self.users = await asyncio.to_thread(Users.load, path)
        except (errors.HeadwaterError, OSError) as fault:
            _events.error("users not reloaded", reason=str(fault), in_force=len(self.users))
            return False
        _events.info("users reloaded", users=len(self.users))
        self._tell_of_outdated()
        return True

    def stop(self) -> None:
        """Stop checking."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _tell(self, address: str, user: str, reason: str) -> None:
        if (left_out := self._sparing.turn()) is not None:
            failures = self._guesses.count(network_of(address))
            fields = {"address": address, "user": user, "reason": reason}
            _events.warning("login failed", **fields, failures=failures, **left_out)

    @asynccontextmanager
    async def _turn(self, network: str, user: str) -> AsyncIterator[None]:
        """Let unknown clients from one address in one at a time."""
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
    """Map an address to its party: an IPv4 address, or the /64 of an IPv6 address."""
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
