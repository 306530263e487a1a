"""Opening what a command works on."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from headwater.cli.target import Credentials, Directory, Servers, Target
from headwater.config.client import ClientSettings

if TYPE_CHECKING:
    from headwater.client.sync.client import Client


@contextmanager
def opened(
    target: Target, credentials: Credentials | None, *, timeout_s: float
) -> Iterator["Client"]:
    """Open a directory or connect to servers for the length of a block."""
    # Loaded here and not above: showing help needs neither a server nor a client.
    api = import_module("headwater")
    settings = _settings(timeout_s)
    client: Client
    match target:
        case Directory(path=path):
            client = api.open(path, settings=settings)
        case Servers(addresses=addresses):
            client = api.connect(
                addresses,
                user=None if credentials is None else credentials.user,
                password=None if credentials is None else credentials.password,
                settings=settings,
            )
    with client:
        yield client


def _settings(timeout_s: float) -> ClientSettings:
    usual = ClientSettings()
    return ClientSettings(
        deadline_s=timeout_s,
        request_timeout_s=min(usual.request_timeout_s, timeout_s),
        connect_timeout_s=min(usual.connect_timeout_s, timeout_s),
    )
