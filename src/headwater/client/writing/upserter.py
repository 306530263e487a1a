"""Upserting into primary-key tables, and deleting from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.client.bucket_keys import primary_key_encoder
from headwater.client.cluster import Cluster
from headwater.client.routing import Router
from headwater.client.writing.kv_lane import KvLane, KvRows
from headwater.client.writing.pipeline import Pipeline
from headwater.client.writing.receipts import Receipt
from headwater.client.writing.sharing import Part, cut
from headwater.client.writing.target import Target
from headwater.client.writing.target_columns import check_unnumbered, target_columns
from headwater.client.writing.writers import Writers
from headwater.config.choices import KvFormat
from headwater.config.options import KV_FORMAT
from headwater.errors import NotPrimaryKeyTableError, UnsupportedError
from headwater.model.arrow import arrow_schema
from headwater.model.table import TableInfo
from headwater.rows.evolution import encoder_of

LANES_MAX = 1024


@dataclass(frozen=True, slots=True)
class _Upsert:
    """Write these columns, None for all."""

    columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Delete:
    """Delete by key."""


_Kind = _Upsert | _Delete


class Upserter:
    """Write rows of one primary-key table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: Writers) -> None:
        _check(table)
        self._settings = cluster.settings
        self._table = table
        self._arrow = arrow_schema(table.schema)
        self._key_names = table.descriptor.physical_primary_key
        self._keys = primary_key_encoder(table.descriptor)
        self._rows = encoder_of(table.schema)
        self._router = Router.of(table.descriptor)
        self._lanes: dict[tuple[int, ...] | None, KvLane] = {}
        self._target: Target[_Kind] = Target(cluster, table, writers=writers, plan=self._plan)
        self._pipeline = Pipeline(self._target, writers)

    async def upsert(
        self, batches: Iterable[pa.RecordBatch], *, columns: Sequence[str] | None = None
    ) -> Receipt:
        """Insert or update rows and wait until they are acknowledged.

        With columns named, which include the primary key, only these change.
        """
        kind = self._upsert(columns)
        return await self._target.deliver((kind, batch) for batch in batches)

    async def delete(self, keys: Iterable[pa.RecordBatch]) -> Receipt:
        """Delete the rows of these primary keys and wait until that is acknowledged."""
        return await self._target.deliver((_Delete(), batch) for batch in keys)

    async def submit(self, batch: pa.RecordBatch, *, columns: Sequence[str] | None = None) -> None:
        """Upsert without waiting for it, but wait while too many rows are on their way.

        The memory of the batch must not change before `flush`.
        """
        await self._pipeline.submit(self._upsert(columns), batch)

    async def submit_delete(self, keys: pa.RecordBatch) -> None:
        """Delete without waiting for it."""
        await self._pipeline.submit(_Delete(), keys)

    async def flush(self) -> Receipt:
        """Wait for everything submitted since the last flush; raise the first failure."""
        return await self._pipeline.flush()

    def _upsert(self, columns: Sequence[str] | None) -> _Upsert:
        kind = _Upsert(None if columns is None else tuple(columns))
        target_columns(self._table.schema, kind.columns)
        return kind

    # ---- planning; in a thread for large batches

    def _plan(self, kind: _Kind, batch: pa.RecordBatch) -> Sequence[Part]:
        """Share rows out: 1. encode keys and rows once 2. route 3. take and cut each share."""
        lane, rows = self._encoded(kind, batch)
        return [
            Part(lane, share.partition, share.bucket, piece, isinstance(kind, _Upsert))
            for share in self._router.route(batch)
            for piece in cut(rows.take(share.rows), self._settings, slice_of=_slice)
        ]

    def _encoded(self, kind: _Kind, batch: pa.RecordBatch) -> tuple[KvLane, KvRows]:
        keys = self._keys.encode([batch.column(name) for name in self._key_names])
        match kind:
            case _Delete():
                return self._lane(None), KvRows.deleting(keys)
            case _Upsert(columns):
                lane = self._lane(target_columns(self._table.schema, columns))
                return lane, KvRows.of(keys, self._rows.encode(self._filled(batch, columns)))

    def _lane(self, targets: tuple[int, ...] | None) -> KvLane:
        lane = self._lanes.get(targets)
        if lane is None:
            if len(self._lanes) >= LANES_MAX:
                self._lanes.clear()
            lane = KvLane(self._table.table_id, self._table.schema_id, targets)
            self._lanes[targets] = lane
        return lane

    def _filled(self, batch: pa.RecordBatch, columns: Sequence[str] | None) -> list[pa.Array]:
        """Return all columns of the table; those that are not written hold nulls."""
        names = set(batch.schema.names if columns is None else columns)
        if columns is None:
            check_unnumbered(batch, self._table.schema)
        return [
            batch.column(field.name)
            if field.name in names
            else pa.nulls(batch.num_rows, field.type)
            for field in self._arrow
        ]


def _slice(rows: KvRows, start: int, end: int) -> KvRows:
    return rows.take(slice(start, end))


def _check(table: TableInfo) -> None:
    if not table.is_keyed:
        raise NotPrimaryKeyTableError(
            f"{table.path} has no primary key, so rows can only be appended to it.",
            hint="Append them.",
        )
    if KV_FORMAT.required(table.descriptor.properties) is not KvFormat.COMPACTED:
        raise UnsupportedError(f"{table.path} keeps its rows in another format than compacted.")
