"""Opening a directory for callers that do not await."""

from collections.abc import Mapping
from pathlib import Path

from headwater.client.sync.client import Client
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.storage import open_storage


def open(  # noqa: A001 - headwater.open reads as it should
    directory: str | Path,
    *,
    listen: bool = False,
    port: int = 0,
    settings: ClientSettings | None = None,
    server_settings: ServerSettings | None = None,
    lake: Mapping[str, str] | None = None,
) -> Client:
    """Open a data directory in this process, making it if it does not exist.

    No server has to run, and no port is taken. The directory is the one that `headwater serve`
    serves, and is held by one process at a time. With `listen` other processes of this machine
    reach the storage at the client's `address`, as long as it is open. `lake` holds options of the
    lake's catalog, such as credentials, that stand above those of the storage.

    >>> import headwater
    >>> with headwater.open(directory / "data") as storage:
    ...     storage.list_databases()
    ['fluss']
    """
    return Client.start(
        open_storage(
            directory,
            listen=listen,
            port=port,
            settings=settings,
            server_settings=server_settings,
            lake=lake,
        )
    )
