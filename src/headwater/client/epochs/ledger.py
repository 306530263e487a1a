"""The ledger of sinks: which epochs are finished, and where the batches of others may lie."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.epochs.lanes import LaneKey
from headwater.client.epochs.ledger_rows import (
    BUCKET_KEY,
    KEY,
    SINKS,
    Standing,
    key_values,
    row_values,
    sinks_descriptor,
    standing_of,
)
from headwater.client.own_tables import ensure_table
from headwater.client.reading.lookup import Lookups
from headwater.client.writing.upserter import Upserter
from headwater.client.writing.writers import Writers
from headwater.model.arrow import arrow_schema
from headwater.model.lineage import LogPosition
from headwater.model.table import TableInfo


class Ledger:
    """Read and write the rows of lanes; a write returns when it is durable."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: Writers) -> None:
        self._schema = arrow_schema(table.schema)
        self._lookups = Lookups(cluster, table)
        self._upserter = Upserter(cluster, table, writers)

    @classmethod
    async def open(cls, cluster: Cluster, writers: Writers) -> "Ledger":
        """Return the ledger of a storage, and make it where no sink has written yet."""
        table = await ensure_table(cluster, SINKS, sinks_descriptor(), whose="Sinks")
        return cls(cluster, table, writers)

    async def look_up(self, keys: Sequence[LaneKey]) -> dict[LaneKey, Standing]:
        """Return how far lanes are; those that never began are left out."""
        if not keys:
            return {}
        by_values = {tuple(key_values(key).values()): key for key in keys}
        found = await self._lookups.lookup(self._batch(map(key_values, keys), KEY))
        return {by_values[tuple(row[name] for name in KEY)]: _standing(row) for row in _rows(found)}

    async def write(
        self, standings: Mapping[LaneKey, Standing], *, only_if: Sequence[LogPosition] = ()
    ) -> None:
        """Note how far lanes are, if the storage has these logs still."""
        if standings:
            rows = [row_values(key, standing) for key, standing in standings.items()]
            await self._upserter.upsert([self._batch(rows, self._schema.names)], only_if=only_if)

    async def floor(self, key: LaneKey, epoch: int) -> int:
        """Return an offset before which there is nothing of an epoch in the bucket of a lane.

        Whatever a lane wrote for an earlier epoch stands before everything of this one.
        """
        values = {name: key_values(key)[name] for name in BUCKET_KEY}
        found = await self._lookups.prefix_lookup(self._batch([values], BUCKET_KEY))
        standings = [_standing(row) for row in _rows(found)]
        return max(
            (each.end or 0 for each in standings if each.epoch < epoch),
            default=0,
        )

    def _batch(self, rows: Iterable[Mapping[str, object]], names: Sequence[str]) -> pa.RecordBatch:
        schema = pa.schema([self._schema.field(name) for name in names])
        return pa.RecordBatch.from_pylist(list(rows), schema)


def _rows(found: pa.Table) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = found.to_pylist()
    return rows


def _standing(row: Mapping[str, int]) -> Standing:
    return standing_of(row["begin_offset"], row["epoch"], row["position"], row["end_offset"])
