"""Connections of Spark's processes: one client per storage, reused from task to task."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from headwater.client.client import AsyncClient, connect
from headwater.client.sync.client import Client
from headwater.config.client import ClientSettings, Security, settings_with_security
from headwater.engines.spark.options import (
    CONNECT_TIMEOUT,
    DEADLINE,
    LAKE,
    PASSWORD,
    SERVERS,
    USER,
    security_of,
)
from headwater.runtime.loops import LoopThread

CLIENTS_MAX = 16
_MS = 1000


@dataclass(frozen=True, slots=True)
class SparkLink:
    """An async client, and the thread whose loop it runs on."""

    loop: LoopThread
    awaiting: AsyncClient
    blocking: Client


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConnection:
    """Where the storage is and how to reach it; small, since it travels with every task."""

    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    security: Security = ()
    """How the connection is encrypted, and how to log in; files must be on every worker."""
    deadline_s: float = 120.0
    connect_timeout_s: float = 10.0
    lake: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Options of the lake's catalog, which may be secrets."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "SparkConnection":
        """Read a connection from validated options."""
        return cls(
            servers=SERVERS.required(options),
            user=USER.of(options),
            password=PASSWORD.of(options),
            security=security_of(options),
            deadline_s=DEADLINE.required(options) / _MS,
            connect_timeout_s=CONNECT_TIMEOUT.required(options) / _MS,
            lake=tuple(sorted((LAKE.of(options) or {}).items())),
        )

    def client(self, *, waits: bool = True) -> Client:
        """The client of this process, connected at the first call.

        With `waits`, wait for a server that is not up: a task may start while a server restarts,
        but setting up a read or a catalog should fail at once.
        """
        return _link(self, os.getpid(), waits=waits).blocking

    def link(self) -> SparkLink:
        """The same client for async callers, with its loop."""
        return _link(self, os.getpid(), waits=True)


@lru_cache(maxsize=CLIENTS_MAX)
def _link(connection: SparkConnection, _process: int, *, waits: bool) -> SparkLink:
    # By process, since workers are forked and a client does not survive that.
    settings = ClientSettings(
        deadline_s=connection.deadline_s,
        connect_timeout_s=connection.connect_timeout_s,
        waits_for_server=waits,
    )
    settings = settings_with_security(settings, connection.security)
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
    return SparkLink(loop, client, Client(loop, client))
