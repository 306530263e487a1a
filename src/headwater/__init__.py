"""Streaming storage for real-time analytics, with a lakehouse behind it.

`open` runs the storage in this process, `connect` reaches a server or an Apache Fluss cluster, and
`aio` has both for those who await.
"""

from collections.abc import Sequence
from pathlib import Path

from headwater import errors
from headwater.client import client as _client
from headwater.client.reading.log_batch import LogBatch, Offsets, Place
from headwater.client.sync.client import Client
from headwater.client.sync.cursor import Cursor, Cursors
from headwater.client.sync.scan import Scan
from headwater.client.sync.table import Table
from headwater.client.sync.tail import Tail
from headwater.client.sync.writer import Writer
from headwater.client.writing.receipts import BucketReceipt, Receipt
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.storage import open_storage as _open_storage
from headwater.errors import HeadwaterError
from headwater.rows.log_batch import ChangeType

__version__ = "0.1.0"
__all__ = [
    "BucketReceipt",
    "ChangeType",
    "Client",
    "ClientSettings",
    "Cursor",
    "Cursors",
    "HeadwaterError",
    "LogBatch",
    "Offsets",
    "Place",
    "Receipt",
    "Scan",
    "ServerSettings",
    "Table",
    "Tail",
    "Writer",
    "connect",
    "errors",
    "open",
]


def open(  # noqa: A001 - headwater.open reads as it should
    directory: str | Path,
    *,
    listen: bool = False,
    port: int = 0,
    settings: ClientSettings | None = None,
    server_settings: ServerSettings | None = None,
) -> Client:
    """Open a data directory in this process, making it if it does not exist.

    No server has to run, and no port is taken. The directory is the one that `headwater serve`
    serves, and is held by one process at a time. With `listen` other processes of this machine
    reach the storage at the client's `address`, as long as it is open.

    >>> import headwater
    >>> with headwater.open(directory / "data") as storage:
    ...     storage.list_databases()
    ['fluss']
    """
    return Client.start(
        _open_storage(
            directory, listen=listen, port=port, settings=settings, server_settings=server_settings
        )
    )


def connect(
    address: str | Sequence[str],
    *,
    user: str | None = None,
    password: str | None = None,
    settings: ClientSettings | None = None,
) -> Client:
    """Connect to a Headwater server or an Apache Fluss cluster, by one or more of its addresses.

    >>> import headwater
    >>> with headwater.open(directory / "shared", listen=True) as storage:
    ...     with headwater.connect(storage.address) as client:
    ...         client.list_databases()
    ['fluss']
    """
    return Client.start(_client.connect(address, user=user, password=password, settings=settings))
