"""Connections of Spark's processes: one client for each storage, kept from task to task."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from headwater.client.client import AsyncClient, connect
from headwater.client.sync.client import Client
from headwater.config.client import ClientSettings
from headwater.engines.spark.options import CONNECT_TIMEOUT, DEADLINE, LAKE, PASSWORD, SERVERS, USER
from headwater.runtime.loops import LoopThread

CLIENTS_MAX = 16
_MS = 1000


@dataclass(frozen=True, slots=True)
class Link:
    """Hold a client that awaits, and the thread on which it does."""

    loop: LoopThread
    awaiting: AsyncClient
    blocking: Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Say where the storage is and how to reach it; small, so that it travels with every task."""

    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    deadline_s: float = 120.0
    connect_timeout_s: float = 10.0
    lake: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Options of the lake's catalog, which may be secrets."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Connection":
        """Read a connection from options that are known to be declared."""
        return cls(
            servers=SERVERS.required(options),
            user=USER.of(options),
            password=PASSWORD.of(options),
            deadline_s=DEADLINE.required(options) / _MS,
            connect_timeout_s=CONNECT_TIMEOUT.required(options) / _MS,
            lake=tuple(sorted((LAKE.of(options) or {}).items())),
        )

    def client(self, *, waits: bool = True) -> Client:
        """Return the client of this process, connecting at the first call.

        `waits` for a server that is not there: a task may start while a server restarts, but
        who sets up a read or a catalog should be told at once that there is none.
        """
        return _link(self, os.getpid(), waits=waits).blocking

    def link(self) -> Link:
        """Return the same client for those who await, and where they can."""
        return _link(self, os.getpid(), waits=True)


@lru_cache(maxsize=CLIENTS_MAX)
def _link(connection: Connection, _process: int, *, waits: bool) -> Link:
    # By process, since workers are forked and a client does not survive that.
    settings = ClientSettings(
        deadline_s=connection.deadline_s,
        connect_timeout_s=connection.connect_timeout_s,
        waits_for_server=waits,
    )
    opening = connect(
        connection.servers,
        user=connection.user,
        password=connection.password,
        settings=settings,
        lake=dict(connection.lake),
    )
    loop = LoopThread("headwater")
    try:
        client = loop.run(opening)
    except BaseException:
        loop.close()
        raise
    return Link(loop, client, Client(loop, client))
