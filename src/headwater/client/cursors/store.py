"""The rows of cursors where they are kept: in a primary-key table of the storage itself."""

from collections import defaultdict
from collections.abc import AsyncIterable, Sequence
from dataclasses import asdict, fields
from typing import Protocol

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.cursors.rows import (
    CURSORS,
    GROUP_KEY,
    SLOT_KEY,
    CursorRow,
    GroupKey,
    cursors_descriptor,
)
from headwater.client.own_tables import ensure_table, find_table
from headwater.model.lineage import LogPosition
from headwater.model.table import TableInfo

_FIELDS = tuple(field.name for field in fields(CursorRow))


class KeyedTable(Protocol):
    """Be a primary-key table."""

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        ...

    async def upsert_if(self, rows: pa.RecordBatch, only_if: Sequence[LogPosition]) -> object:
        """Write rows if the storage has these logs still; when this returns, readers see them."""
        ...

    async def delete(self, keys: pa.RecordBatch) -> object:
        """Delete rows by key."""
        ...

    async def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Return the rows with these keys."""
        ...

    async def prefix_lookup(self, prefixes: pa.RecordBatch) -> pa.Table:
        """Return the rows whose keys begin with one of these."""
        ...

    def scan(self) -> AsyncIterable[pa.RecordBatch]:
        """Return all rows."""
        ...


class TableStore:
    """Keep the rows of one group in a table."""

    def __init__(self, table: KeyedTable, group: GroupKey) -> None:
        self._table = table
        self._group = asdict(group)

    async def upsert(
        self, rows: Sequence[CursorRow], *, only_if: Sequence[LogPosition] = ()
    ) -> None:
        """Fold rows into those that are there, if the storage has these logs still."""
        listed = [{**self._group, **asdict(row)} for row in rows]
        batch = pa.RecordBatch.from_pylist(listed, self._table.schema)
        await self._table.upsert_if(batch, only_if)

    async def delete(self, keys: Sequence[tuple[str, int]]) -> None:
        """Remove rows by slot and generation."""
        await self._table.delete(self._keys(keys))

    async def rows(self) -> list[CursorRow]:
        """Return all rows of the group."""
        schema = pa.schema([self._table.schema.field(name) for name in GROUP_KEY])
        prefix = pa.RecordBatch.from_pylist([self._group], schema)
        found = await self._table.prefix_lookup(prefix)
        return [row for _, row in _rows_of(found)]

    async def find(self, keys: Sequence[tuple[str, int]]) -> list[CursorRow]:
        """Return those rows that there are of these, by slot and generation."""
        return [row for _, row in _rows_of(await self._table.lookup(self._keys(keys)))]

    def _keys(self, keys: Sequence[tuple[str, int]]) -> pa.RecordBatch:
        listed = [{**self._group, "slot": slot, "generation": number} for slot, number in keys]
        schema = pa.schema([self._table.schema.field(name) for name in (*GROUP_KEY, *SLOT_KEY)])
        return pa.RecordBatch.from_pylist(listed, schema)


async def all_groups(table: KeyedTable) -> dict[GroupKey, list[CursorRow]]:
    """Return the rows of all groups."""
    groups: defaultdict[GroupKey, list[CursorRow]] = defaultdict(list)
    async for batch in table.scan():
        for group, row in _rows_of(batch):
            groups[group].append(row)
    return groups


def _rows_of(rows: pa.Table | pa.RecordBatch) -> list[tuple[GroupKey, CursorRow]]:
    found = []
    for row in rows.to_pylist():
        group = GroupKey(*(row.pop(name) for name in GROUP_KEY))
        # A newer version may have added columns; what they mean is no business of this one.
        found.append((group, CursorRow(**{name: row[name] for name in _FIELDS})))
    return found


async def find_cursors(cluster: Cluster) -> TableInfo | None:
    """Return the table of cursors if there is one."""
    return await find_table(cluster, CURSORS)


async def ensure_cursors(cluster: Cluster) -> TableInfo:
    """Return the table of cursors, and make it where nobody has used one yet."""
    return await ensure_table(cluster, CURSORS, cursors_descriptor(), whose="Cursors")
