"""The storages that engines read: one client for each place, opened once in a process."""

import atexit
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from headwater.client.sync.client import Client, connect
from headwater.config.client import ClientSettings
from headwater.embedded.blocking import open as open_directory
from headwater.errors import MissingError, RequestError
from headwater.store.local import holds_storage

# Somebody waits for the answer to a query: sooner told than tried for long.
SETTINGS = ClientSettings(deadline_s=30.0, connect_timeout_s=5.0)
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:/\\\s,]+):[0-9]{1,5}\Z")
_WAYS = "Give host:port of a server, a data directory, or a client of headwater.open or connect."

Place = str | Path | Client
_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Held:
    """Hold the client of a place; one thread opens it while others wait for that."""

    lock: Lock = field(default_factory=Lock)
    client: Client | None = None


@dataclass(slots=True)
class _Storages:
    """Hold the clients of this process."""

    lock: Lock = field(default_factory=Lock)
    held: dict[_Key, _Held] = field(default_factory=dict)

    def of(self, place: Path | str, lake: Mapping[str, str]) -> Client:
        with self.lock:
            held = self.held.setdefault((str(place), tuple(sorted(lake.items()))), _Held())
        with held.lock:
            if held.client is None or not held.client.is_open:
                held.client = _client(place, lake)
            return held.client

    def close(self) -> None:
        with self.lock:
            clients = [held.client for held in self.held.values()]
            self.held.clear()
        for client in clients:
            if client is not None:
                client.close()

    def forget(self) -> None:
        self.lock = Lock()
        self.held = {}


_storages = _Storages()
# A client does not survive a fork, nor does a lock that another thread held meanwhile.
os.register_at_fork(after_in_child=_storages.forget)
# Before the threads that closing needs are ended, which is before what `atexit` calls.
getattr(threading, "_register_atexit", atexit.register)(_storages.close)


def opened(at: Place | None, *, lake: Mapping[str, str] | None = None) -> Client:
    """Return a client of a storage: a client as it is, or the one of an address or a directory.

    Those of addresses and directories are kept until the process ends, and made anew after a
    fork, or after somebody closed them. `lake` holds options of the lake's catalog that stand
    above those that the server tells.
    """
    if isinstance(at, Client):
        return at
    return _storages.of(_place(at), lake or {})


def close_opened() -> None:
    """Close the clients that `opened` made; the next call makes them anew."""
    _storages.close()


def _place(at: str | Path | None) -> Path | str:
    """Tell a directory from addresses: an address ends in a port, and no directory has its name."""
    if at is None or not str(at).strip():
        raise RequestError("No storage is named.", hint=_WAYS)
    path = Path(at).expanduser()
    addresses = [part.strip() for part in str(at).split(",") if part.strip()]
    is_named = isinstance(at, str) and addresses and all(map(_ADDRESS.match, addresses))
    if is_named and not path.is_dir():
        return ",".join(addresses)
    if path.is_dir():
        if not holds_storage(path):
            raise MissingError(f"The directory {path} holds no storage.", hint=_WAYS)
        return path.resolve()
    if path.exists():
        raise RequestError(f"{path} is not a directory.", hint=_WAYS)
    # Who reads wants what is there: a directory is not made by a slip of the keyboard.
    raise MissingError(f"There is no directory {path}, and it is no host:port.", hint=_WAYS)


def _client(place: Path | str, lake: Mapping[str, str]) -> Client:
    if isinstance(place, Path):
        return open_directory(place, settings=SETTINGS, lake=lake)
    return connect(place, settings=SETTINGS, lake=lake)
