"""The storages that engines read, opened once per process, and views of their tables.

A storage is given as a client, an address or a directory. Clients of addresses and directories are
kept until the process ends, and are reopened after a fork.
"""

import atexit
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from headwater.client.sync.client import Client, connect
from headwater.client.sync.scan import View
from headwater.client.sync.table import Table
from headwater.config.client import ClientSettings
from headwater.embedded.storage import open as open_directory
from headwater.errors import MissingError, RequestError
from headwater.read.offsets import Place
from headwater.read.split import FileGroup, Hybrid, Split
from headwater.store.local import holds_storage

# Clients, one per place.

# Somebody waits for the result of a query: better to fail soon than to retry long.
SETTINGS = ClientSettings(deadline_s=30.0, connect_timeout_s=5.0)
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:/\\\s,]+):[0-9]{1,5}\Z")
_WAYS = "Pass host:port of a server, a data directory, or a client of headwater.open or connect."

StoragePlace = str | Path | Client
_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Held:
    """The client of a place; one thread opens it while others wait."""

    lock: Lock = field(default_factory=Lock)
    client: Client | None = None


@dataclass(slots=True)
class _Storages:
    """The clients of this process."""

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
# Neither a client nor a lock that another thread held survives a fork.
os.register_at_fork(after_in_child=_storages.forget)
# Before the threads that closing needs are ended, which is before `atexit` callbacks.
getattr(threading, "_register_atexit", atexit.register)(_storages.close)


def opened(at: StoragePlace | None, *, lake: Mapping[str, str] | None = None) -> Client:
    """The client of a storage: a client as it is, or the one of an address or a directory.

    Those of addresses and directories are kept until the process ends, and opened again after a
    fork, or after somebody closed them. `lake` holds options of the lake's catalog that override
    those that the server sends.
    """
    if isinstance(at, Client):
        return at
    return _storages.of(_place(at), lake or {})


def close_opened() -> None:
    """Close the clients that `opened` made; the next call opens new ones."""
    _storages.close()


def _place(at: str | Path | None) -> Path | str:
    """Tell a directory from addresses: an address ends in a port, and no directory has its name."""
    if at is None or not str(at).strip():
        raise RequestError("No storage is given.", hint=_WAYS)
    path = Path(at).expanduser()
    addresses = [part.strip() for part in str(at).split(",") if part.strip()]
    is_named = isinstance(at, str) and addresses and all(map(_ADDRESS.match, addresses))
    if is_named and not path.is_dir():
        return ",".join(addresses)
    if path.is_dir():
        if not holds_storage(path):
            raise MissingError(f"The directory {path} contains no storage.", hint=_WAYS)
        return path.resolve()
    if path.exists():
        raise RequestError(f"{path} is not a directory.", hint=_WAYS)
    # Reading never creates a directory: a typo should be an error.
    raise MissingError(
        f"There is no directory {path}, and it is not a host:port either.", hint=_WAYS
    )


def _client(place: Path | str, lake: Mapping[str, str]) -> Client:
    if isinstance(place, Path):
        return open_directory(place, settings=SETTINGS, lake=lake)
    return connect(place, settings=SETTINGS, lake=lake)


# A view of a table, from whatever an engine is given.

Source: TypeAlias = View | Table | Client | str | Path
"""A view, a table, or a storage: a client, `host:port`, or a data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPosition:
    """Which rows of a table are read; by default the current ones."""

    token: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | int | None = None
    offsets: Mapping[Place | int, int] | None = None
    mode: str = "union"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """Which table of a storage is read, and at which position."""

    table: str | None = None
    position: ViewPosition = field(default_factory=ViewPosition)
    lake: Mapping[str, str] | None = field(default=None, repr=False)


def view_of(source: Source, asked: ViewRequest) -> View:
    """Make the view; raises if something is missing or contradictory."""
    if isinstance(source, View):
        if asked.table is not None or asked.position != ViewPosition():
            raise RequestError(
                "A view already has a table and a position.",
                hint="Pass the table instead of the view, or only the view.",
            )
        return source
    table = source if isinstance(source, Table) else _table(source, asked)
    if isinstance(source, Table) and asked.table is not None:
        raise RequestError(f"Two tables are given: {source.path} and {asked.table}.")
    position = asked.position
    return table.view(
        token=position.token,
        snapshot_id=position.snapshot_id,
        as_of=position.as_of,
        offsets=position.offsets,
        mode=position.mode,
    )


def _table(source: Client | str | Path, asked: ViewRequest) -> Table:
    if asked.table is None:
        raise RequestError(
            "No table is given.", hint=("Pass a table, or a storage and the name of a table in it.")
        )
    return opened(source, lake=asked.lake).table(asked.table)


def told(fault: Exception) -> str:
    """Message and hint of an error in one text."""
    hint = getattr(fault, "hint", "")
    text = str(fault)
    return text if not hint or hint in text else f"{text} {hint}"


def changed_in(tail: Sequence[Split], group: FileGroup) -> tuple[Split, ...]:
    """The splits whose changes can affect rows in files: fewer keys are found faster."""
    if group.bucket < 0:
        return tuple(tail)
    return tuple(
        split
        for split in tail
        if isinstance(split, Hybrid)
        and split.bucket == group.bucket
        and split.files.partition == group.partition
    )
