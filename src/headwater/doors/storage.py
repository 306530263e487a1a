"""The storage behind the doors: one client for each caller, logged in with what the caller sent.

Permissions are those of the caller: doors hold no list of users, they log in to the server with
the caller's credentials and read through that login. A directory has no users, so that all callers
share one client.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from headwater.client.sync.client import Client, connect
from headwater.config.client import ClientSettings
from headwater.embedded.storage import open as open_directory
from headwater.runtime.clock import Clock, SystemClock

CLIENTS_MAX = 64
"""Callers whose logins are kept; one more closes the one that was used longest ago."""
LOGIN_S_MAX = 300.0
"""Seconds after which a caller is logged in anew, so that a changed password ends old logins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorCaller:
    """Who asks: a user with a password, a token, or nobody."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def is_somebody(self) -> bool:
        """Tell whether there is something to log in with."""
        return self.user is not None or self.token is not None

    @property
    def key(self) -> str:
        """Return what tells callers apart, without their secrets."""
        parts = (self.user or "", self.password or "", self.token or "")
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


NOBODY = DoorCaller()


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorPlace:
    """A directory or the addresses of servers, and who callers without credentials are."""

    at: Path | tuple[str, ...]
    own: DoorCaller = NOBODY
    settings: ClientSettings = field(default_factory=ClientSettings)
    lake: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def has_users(self) -> bool:
        """Tell whether callers have to log in: behind is a server, and nobody logs in for them."""
        has_own = self.own.is_somebody or self.settings.token_file or self.settings.tls_key_file
        return not isinstance(self.at, Path) and not has_own


@dataclass(slots=True)
class _Login:
    """The client of one caller, and how many requests use it."""

    since: float
    lock: Lock = field(default_factory=Lock)
    client: Client | None = None
    uses: int = 0
    is_retired: bool = False


class DoorStorage:
    """Lends clients to requests; may be used by any number of threads."""

    def __init__(self, place: DoorPlace, clock: Clock | None = None) -> None:
        self.place = place
        self._clock = clock or SystemClock()
        self._logins: OrderedDict[str, _Login] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def lent(self, caller: DoorCaller = NOBODY) -> Iterator[Client]:
        """Lend the client of a caller; raises AuthenticationError if the server refuses it."""
        known = self.known(caller)
        login = self._begin(known)
        try:
            with login.lock:
                if login.client is None:
                    login.client = self._opened(known)
            yield login.client
        except BaseException:
            if login.client is None:
                self._retire(known.key, login)
            raise
        finally:
            self._end(login)

    def known(self, caller: DoorCaller) -> DoorCaller:
        """Return who a caller counts as: in a directory, all are the same."""
        if isinstance(self.place.at, Path):
            return NOBODY
        return caller if caller.is_somebody else self.place.own

    def close(self) -> None:
        """Close all clients."""
        with self._lock:
            logins = list(self._logins.values())
            self._logins.clear()
        for login in logins:
            if login.client is not None:
                login.client.close()

    def _begin(self, caller: DoorCaller) -> _Login:
        now, is_shared = self._clock.monotonic(), isinstance(self.place.at, Path)
        retired: list[_Login] = []
        with self._lock:
            login = self._logins.get(caller.key)
            if login is not None and not is_shared and now - login.since > LOGIN_S_MAX:
                retired.append(self._logins.pop(caller.key))
                login = None
            if login is None:
                login = self._logins[caller.key] = _Login(now)
            self._logins.move_to_end(caller.key)
            login.uses += 1
            while len(self._logins) > CLIENTS_MAX:
                retired.append(self._logins.popitem(last=False)[1])
            closing = [each for each in retired if self._is_over(each)]
        _close(closing)
        return login

    def _retire(self, key: str, login: _Login) -> None:
        with self._lock:
            login.is_retired = True
            if self._logins.get(key) is login:
                del self._logins[key]

    def _end(self, login: _Login) -> None:
        with self._lock:
            login.uses -= 1
            closing = [login] if login.is_retired and not login.uses else []
        _close(closing)

    @staticmethod
    def _is_over(login: _Login) -> bool:
        """Retire a login, and tell whether nobody uses it any more."""
        login.is_retired = True
        return not login.uses

    def _opened(self, caller: DoorCaller) -> Client:
        place = self.place
        lake = place.lake or None
        if isinstance(place.at, Path):
            return open_directory(place.at, settings=place.settings, lake=lake)
        return connect(
            place.at,
            user=caller.user,
            password=caller.password,
            token=caller.token,
            settings=place.settings,
            lake=lake,
        )


def _close(logins: list[_Login]) -> None:
    for login in logins:
        if login.client is not None:
            login.client.close()
