"""Streaming storage for real-time analytics, with a lakehouse behind it.

`open` runs the storage in this process, `connect` reaches a server or an Apache Fluss cluster, and
`headwater.aio` has both for those who await.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from headwater import errors
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.cursors.states import CursorState, CursorSummary, MemberState, PlaceState
    from headwater.client.epochs.receipts import EpochReceipt
    from headwater.client.reading.log_batch import LogBatch, Offsets, Place
    from headwater.client.sync.client import Client, connect
    from headwater.client.sync.cursor import Cursor, Cursors
    from headwater.client.sync.scan import Scan
    from headwater.client.sync.table import Table
    from headwater.client.sync.tail import Tail
    from headwater.client.sync.view import View
    from headwater.client.sync.writer import Writer
    from headwater.client.union.explain import Explanation
    from headwater.client.union.split import FileGroup, NativePlan, ReadPlan, Tier, UnionSplit
    from headwater.client.union.view import TableView, ViewedSnapshot
    from headwater.client.writing.receipts import BucketReceipt, Receipt
    from headwater.config.client import ClientSettings
    from headwater.config.server import ServerSettings
    from headwater.embedded.blocking import open  # noqa: A004 - reads as it should
    from headwater.rows.log_batch import ChangeType

__version__ = "0.1.0"
__all__ = [
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
    "BucketReceipt": "client.writing.receipts",
    "ChangeType": "rows.log_batch",
    "Client": "client.sync.client",
    "ClientSettings": "config.client",
    "Cursor": "client.sync.cursor",
    "CursorState": "client.cursors.states",
    "CursorSummary": "client.cursors.states",
    "Cursors": "client.sync.cursor",
    "EpochReceipt": "client.epochs.receipts",
    "Explanation": "client.union.explain",
    "FileGroup": "client.union.split",
    "LogBatch": "client.reading.log_batch",
    "MemberState": "client.cursors.states",
    "NativePlan": "client.union.split",
    "Offsets": "client.reading.log_batch",
    "Place": "client.reading.log_batch",
    "PlaceState": "client.cursors.states",
    "ReadPlan": "client.union.split",
    "Receipt": "client.writing.receipts",
    "Scan": "client.sync.scan",
    "ServerSettings": "config.server",
    "Table": "client.sync.table",
    "TableView": "client.union.view",
    "Tail": "client.sync.tail",
    "Tier": "client.union.split",
    "UnionSplit": "client.union.split",
    "View": "client.sync.view",
    "ViewedSnapshot": "client.union.view",
    "Writer": "client.sync.writer",
    "aio": "",
    "connect": "client.sync.client",
    "open": "embedded.blocking",
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
