"""Opening what a command works on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import headwater
from headwater.cli.target import Credentials, Directory, Target
from headwater.config.client import ClientSettings
from headwater.errors import AuthenticationError, ServerUnreachableError

if TYPE_CHECKING:
    from headwater.client.sync.client import Client

NO_SERVER = (
    "Start one with: headwater serve ./data; name another, or a data directory, with --at; or wait"
    " for it with --wait."
)
NO_CREDENTIALS = "Give --user and --password, or set HEADWATER_USER and HEADWATER_PASSWORD."


@contextmanager
def opened(
    target: Target,
    credentials: Credentials | None,
    *,
    timeout_s: float,
    waits: bool = False,
    lake: Mapping[str, str] | None = None,
) -> Iterator["Client"]:
    """Open a directory or connect to servers for the length of a block."""
    settings = client_settings(timeout_s, waits=waits)
    try:
        client = _client(target, credentials, settings=settings, lake=lake or None)
    except ServerUnreachableError as fault:
        raise ServerUnreachableError(fault.message, hint=NO_SERVER) from fault
    except AuthenticationError as fault:
        if credentials is not None:
            raise
        raise AuthenticationError(fault.message, hint=NO_CREDENTIALS) from fault
    with client:
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


def client_settings(timeout_s: float, *, waits: bool) -> ClientSettings:
    """Return the settings of a client whose calls, with or without a wait, take no longer."""
    usual = ClientSettings()
    return ClientSettings(
        deadline_s=timeout_s,
        request_timeout_s=min(usual.request_timeout_s, timeout_s),
        connect_timeout_s=timeout_s if waits else min(usual.connect_timeout_s, timeout_s),
        waits_for_server=waits,
    )
