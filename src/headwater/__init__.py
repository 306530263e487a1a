"""Streaming storage for real-time analytics, with a lakehouse behind it.

`open` runs the storage in this process, `connect` reaches a server or an Apache Fluss cluster, and
`headwater.aio` has both for those who await.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.cursors.admin import CursorState, CursorSummary, MemberState, PlaceState
    from headwater.client.sync.client import Acls, Client, connect
    from headwater.client.sync.scan import Scan, View
    from headwater.client.sync.table import Table, Writer
    from headwater.client.sync.tail import Cursor, Cursors, Tail
    from headwater.config.client import ClientSettings
    from headwater.config.server import ServerSettings
    from headwater.embedded.storage import open  # noqa: A004 - reads as it should
    from headwater.epochs.intake import EpochReceipt
    from headwater.model.acl import Acl
    from headwater.read.explain import Explanation
    from headwater.read.offsets import LogBatch, Offsets, Place
    from headwater.read.split import FileGroup, NativePlan, ReadPlan, Tier, UnionSplit
    from headwater.read.view import TableView, ViewedSnapshot
    from headwater.rows.log_batch import ChangeType
    from headwater.write.receipts import BucketReceipt, Receipt

__version__ = "0.1.0"
__all__ = [
    "Acl",
    "Acls",
    "BucketReceipt",
    "ChangeType",
    "Client",
    "ClientSettings",
    "Cursor",
    "CursorState",
    "CursorSummary",
    "Cursors",
    "EpochReceipt",
    "Explanation",
    "FileGroup",
    "HeadwaterError",
    "LogBatch",
    "MemberState",
    "NativePlan",
    "Offsets",
    "Place",
    "PlaceState",
    "ReadPlan",
    "Receipt",
    "Scan",
    "ServerSettings",
    "Table",
    "TableView",
    "Tail",
    "Tier",
    "UnionSplit",
    "View",
    "ViewedSnapshot",
    "Writer",
    "connect",
    "errors",
    "open",
]
# Names are loaded when they are used first: the command line, test plugins and workers of other
# systems import this package without needing all of it.
_HOMES = {
    "Acl": "model.acl",
    "Acls": "client.sync.client",
    "BucketReceipt": "write.receipts",
    "ChangeType": "rows.log_batch",
    "Client": "client.sync.client",
    "ClientSettings": "config.client",
    "Cursor": "client.sync.tail",
    "CursorState": "client.cursors.admin",
    "CursorSummary": "client.cursors.admin",
    "Cursors": "client.sync.tail",
    "EpochReceipt": "epochs.intake",
    "Explanation": "read.explain",
    "FileGroup": "read.split",
    "LogBatch": "read.offsets",
    "MemberState": "client.cursors.admin",
    "NativePlan": "read.split",
    "Offsets": "read.offsets",
    "Place": "read.offsets",
    "PlaceState": "client.cursors.admin",
    "ReadPlan": "read.split",
    "Receipt": "write.receipts",
    "Scan": "client.sync.scan",
    "ServerSettings": "config.server",
    "Table": "client.sync.table",
    "TableView": "read.view",
    "Tail": "client.sync.tail",
    "Tier": "read.split",
    "UnionSplit": "read.split",
    "View": "client.sync.scan",
    "ViewedSnapshot": "read.view",
    "Writer": "client.sync.table",
    "aio": "",
    "connect": "client.sync.client",
    "open": "embedded.storage",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    if not home:
        return import_module(f"headwater.{name}")
    found = getattr(import_module(f"headwater.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
