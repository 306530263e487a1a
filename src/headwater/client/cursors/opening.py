"""Opening a cursor over a table of a storage."""

import os
import platform
from collections.abc import Callable

from headwater.client.cluster import Cluster
from headwater.client.cursors.cursor import AsyncCursor
from headwater.client.cursors.ledger import GroupStore
from headwater.client.cursors.options import CursorOptions, check_cursor_name
from headwater.client.cursors.rows import GroupKey
from headwater.client.cursors.source import TableSource
from headwater.client.cursors.store import KeyedTable, TableStore, ensure_cursors
from headwater.model.table import TableInfo
from headwater.runtime.ids import random_bytes

MakeTable = Callable[[TableInfo], KeyedTable]


def open_cursor(
    name: str,
    source: TableSource,
    *,
    table: TableInfo,
    cluster: Cluster,
    make_table: MakeTable,
    options: CursorOptions,
) -> AsyncCursor:
    """Return a cursor that joins its group when it is entered."""
    group = GroupKey(check_cursor_name(name), str(table.path))

    async def open_store() -> GroupStore:
        return TableStore(make_table(await ensure_cursors(cluster)), group)

    return AsyncCursor(
        source,
        open_store,
        group=group,
        member=member_name(),
        note=f"{platform.node()} pid {os.getpid()}",
        clock=cluster.clock,
        options=options,
    )


def member_name() -> str:
    """Return a name that no other member ever has."""
    return f"{platform.node()}-{os.getpid()}-{random_bytes(6).hex()}"
