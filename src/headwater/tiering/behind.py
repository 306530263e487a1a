"""Tables whose lake does not hold yet what their logs held when somebody looked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.client.client import AsyncClient
from headwater.client.reading.places import buckets_of
from headwater.config.options import DATALAKE_ENABLED
from headwater.errors import DatabaseMissingError, PartitionMissingError, TableMissingError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.tiering.looking import log_ranges

Logs = Mapping[LakeBucket, OffsetRange]
_GONE = (TableMissingError, DatabaseMissingError)


@dataclass(slots=True)
class Behind:
    """Tell of tables which are behind, where the server does not: Apache Fluss tells no states."""

    client: AsyncClient
    _noted: dict[TablePath, tuple[TableInfo, Logs]] = field(default_factory=dict)

    async def note(self, tables: Sequence[TablePath] = ()) -> set[TablePath]:
        """Note where logs end now, of all tables or of some, and return those with a lake."""
        for path in tables or await self._all_tables():
            try:
                table = (await self.client.table(path)).info
                if DATALAKE_ENABLED.of(table.descriptor.properties):
                    self._noted[path] = (table, await self._logs(table))
            except _GONE:
                continue
        return set(self._noted)

    async def of(self, tables: Iterable[TablePath]) -> set[TablePath]:
        """Return those of some tables that are behind what was noted, and can still come up."""
        return {path for path in tables if await self._is_behind(path)}

    async def _is_behind(self, path: TablePath) -> bool:
        table, noted = self._noted[path]
        try:
            known = await self.client.lake.snapshot(path)
            if known is not None and known.table_id != table.table_id:
                return False
            now = await self._logs(table)
        except _GONE:
            return False
        return is_behind(noted, now=now, held={} if known is None else known.ends)

    async def _logs(self, table: TableInfo) -> Logs:
        cluster = self.client.cluster
        try:
            return await log_ranges(self.client, table, await buckets_of(cluster, table))
        except PartitionMissingError:  # Dropped after it was listed.
            return await log_ranges(self.client, table, await buckets_of(cluster, table))

    async def _all_tables(self) -> list[TablePath]:
        return [
            TablePath(database, name)
            for database in await self.client.list_databases()
            for name in await self.client.list_tables(database)
        ]


def is_behind(noted: Logs, *, now: Logs, held: Mapping[LakeBucket, int]) -> bool:
    """Tell whether a lake is still to get rows that were noted and that the logs still have."""
    return any(
        max(held.get(bucket, 0), now[bucket].start) < log.end
        for bucket, log in noted.items()
        if bucket in now  # A partition that was dropped has nothing left to tier.
    )
