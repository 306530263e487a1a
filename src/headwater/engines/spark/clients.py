"""Connections of Spark's processes: one client for each storage, kept from task to task."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from headwater.client.client import connect
from headwater.client.sync.client import Client
from headwater.config.client import ClientSettings
from headwater.engines.spark.options import CONNECT_TIMEOUT, DEADLINE, PASSWORD, SERVERS, USER

CLIENTS_MAX = 16
_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Say where the storage is and how to reach it; small, so that it travels with every task."""

    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    deadline_s: float = 120.0
    connect_timeout_s: float = 10.0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Connection":
        """Read a connection from options that are known to be declared."""
        return cls(
            servers=SERVERS.required(options),
            user=USER.of(options),
            password=PASSWORD.of(options),
            deadline_s=DEADLINE.required(options) / _MS,
            connect_timeout_s=CONNECT_TIMEOUT.required(options) / _MS,
        )

    def client(self) -> Client:
        """Return the client of this process, connecting at the first call."""
        return _client(self, os.getpid())


@lru_cache(maxsize=CLIENTS_MAX)
def _client(connection: Connection, _process: int) -> Client:
    # By process, since workers are forked and a client does not survive that.
    settings = ClientSettings(
        deadline_s=connection.deadline_s, connect_timeout_s=connection.connect_timeout_s
    )
    return Client.start(
        connect(
            connection.servers,
            user=connection.user,
            password=connection.password,
            settings=settings,
        )
    )
