"""The same API for those who await: `async with await headwater.aio.open("./data") as hw: ...`."""

from headwater.client.acls import AclAdmin
from headwater.client.client import AsyncClient, connect
from headwater.client.cursors.admin import CursorAdmin
from headwater.client.cursors.cursor import AsyncCursor
from headwater.client.scan import AsyncScan
from headwater.client.table import AsyncTable
from headwater.client.view import AsyncView
from headwater.client.writer import AsyncWriter
from headwater.embedded.storage import open_storage as open  # noqa: A004 - that is its name here
from headwater.read.tail import Tail
from headwater.read.virtual import VirtualTail

__all__ = [
    "AclAdmin",
    "AsyncClient",
    "AsyncCursor",
    "AsyncScan",
    "AsyncTable",
    "AsyncView",
    "AsyncWriter",
    "CursorAdmin",
    "Tail",
    "VirtualTail",
    "connect",
    "open",
]
