"""Opening what a command works on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import headwater
from headwater.cli.target import Credentials, Directory, Target
from headwater.config.client import ClientSettings

if TYPE_CHECKING:
    from headwater.client.sync.client import Client


@contextmanager
def opened(
    target: Target,
    credentials: Credentials | None,
    *,
    timeout_s: float,
    lake: Mapping[str, str] | None = None,
) -> Iterator["Client"]:
    """Open a directory or connect to servers for the length of a block."""
    with _client(target, credentials, settings=_settings(timeout_s), lake=lake or None) as client:
        yield client


def _client(
    target: Target,
    credentials: Credentials | None,
    *,
    settings: ClientSettings,
    lake: Mapping[str, str] | None,
) -> "Client":
    # The package loads the client, or the server in this process, when these are called.
    if isinstance(target, Directory):
        return headwater.open(target.path, settings=settings, lake=lake)
    return headwater.connect(
        target.addresses,
        user=None if credentials is None else credentials.user,
        password=None if credentials is None else credentials.password,
        settings=settings,
        lake=lake,
    )


def _settings(timeout_s: float) -> ClientSettings:
    usual = ClientSettings()
    return ClientSettings(
        deadline_s=timeout_s,
        request_timeout_s=min(usual.request_timeout_s, timeout_s),
        connect_timeout_s=min(usual.connect_timeout_s, timeout_s),
    )
