"""Upserting into primary-key tables, and deleting from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.routing import Router
from headwater.client.writing.kv_encoding import KvEncoding
from headwater.client.writing.kv_lane import KvLane, KvRows
from headwater.client.writing.pipeline import Pipeline
from headwater.client.writing.receipts import Receipt
from headwater.client.writing.sharing import Part, cut
from headwater.client.writing.target import Target
from headwater.client.writing.target_columns import target_columns
from headwater.client.writing.writers import Writers
from headwater.model.lineage import UNKNOWN, LogPosition
from headwater.model.table import TableInfo
from headwater.rows.row_bytes import RowBytes

LANES_MAX = 1024


@dataclass(frozen=True, slots=True)
class _Upsert:
    """Write these columns, None for all."""

    columns: tuple[str, ...] | None
    only_if: tuple[LogPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class _Delete:
    """Delete by key."""


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """Write some rows, and delete others by their keys: a byte for each says which."""

    deletes: bytes


_Kind = _Upsert | _Delete | _Change


class Upserter:
    """Write rows of one primary-key table."""

    def __init__(self, cluster: Cluster, table: TableInfo, writers: Writers) -> None:
        self._settings = cluster.settings
        self._table = table
        self._encoding = KvEncoding(table)
        self._router = Router.of(table.descriptor)
        self._lanes: dict[tuple[int, ...] | None, KvLane] = {}
        self._target: Target[_Kind] = Target(cluster, table, writers=writers, plan=self._plan)
        self.pipeline = Pipeline(self._target, writers)

    async def upsert(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        columns: Sequence[str] | None = None,
        only_if: Sequence[LogPosition] = (),
    ) -> Receipt:
        """Insert or update rows and wait until they are acknowledged.

        With columns named, which include the primary key, only these change. `only_if` names logs
        without which the storage is another one, and writes nothing.
        """
        known = tuple(each for each in only_if if each.incarnation != UNKNOWN)
        kind = replace(self._upsert(columns), only_if=known)
        return await self._target.deliver((kind, batch) for batch in batches)

    async def delete(self, keys: Iterable[pa.RecordBatch]) -> Receipt:
        """Delete the rows of these primary keys and wait until that is acknowledged."""
        return await self._target.deliver((_Delete(), batch) for batch in keys)

    async def submit(self, batch: pa.RecordBatch, *, columns: Sequence[str] | None = None) -> None:
        """Upsert without waiting for it, but wait while too many rows are on their way.

        The memory of the batch must not change before `flush`.
        """
        await self.pipeline.submit(self._upsert(columns), batch)

    async def submit_delete(self, keys: pa.RecordBatch) -> None:
        """Delete without waiting for it."""
        await self.pipeline.submit(_Delete(), keys)

    async def put(self, batch: pa.RecordBatch) -> None:
        """Submit rows without being told of what failed before."""
        await self.pipeline.put(_Upsert(None), batch)

    async def put_delete(self, keys: pa.RecordBatch) -> None:
        """Submit deletes without being told of what failed before."""
        await self.pipeline.put(_Delete(), keys)

    @property
    def mixes_deletes(self) -> bool:
        """Tell whether rows and deletes can be one batch, which says of both what is written."""
        return target_columns(self._table.schema, None) is None

    async def put_changes(self, batch: pa.RecordBatch, deletes: bytes) -> None:
        """Submit rows of which some delete their keys, in their order."""
        assert self.mixes_deletes
        await self.pipeline.put(_Change(deletes), batch)

    async def flush(self) -> Receipt:
        """Wait for everything submitted since the last flush; raise the first failure."""
        return await self.pipeline.flush()

    def _upsert(self, columns: Sequence[str] | None) -> _Upsert:
        kind = _Upsert(None if columns is None else tuple(columns))
        target_columns(self._table.schema, kind.columns)
        return kind

    # ---- planning; in a thread for large batches

    def _plan(self, kind: _Kind, batch: pa.RecordBatch) -> Sequence[Part]:
        """Share rows out: 1. encode keys and rows once 2. route 3. take and cut each share."""
        lane, rows = self._encoded(kind, batch)
        shares = [(share, rows.take(share.rows)) for share in self._router.route(batch)]
        return [
            # Nobody needs a partition to delete from.
            Part(lane, share.partition, share.bucket, piece, bool(taken.rows.lengths.any()))
            for share, taken in shares
            for piece in cut(taken, self._settings, slice_of=_slice)
        ]

    def _encoded(self, kind: _Kind, batch: pa.RecordBatch) -> tuple[KvLane, KvRows]:
        keys = self._encoding.keys(batch)
        match kind:
            case _Delete():
                return self._lane(None), KvRows.deleting(keys)
            case _Upsert(columns, only_if):
                lane = self._lane(target_columns(self._table.schema, columns))
                if only_if:
                    # A lane of its own: rows that share a batch share its conditions.
                    lane = replace(lane, only_if=only_if)
                return lane, KvRows.of(keys, self._encoding.rows(batch, columns))
            case _Change(deletes):
                rows = self._encoding.rows(batch, None)
                mask = np.frombuffer(deletes, np.uint8) != 0
                ends = np.where(mask, rows.starts, rows.ends)
                kept = RowBytes(rows.data, rows.starts, ends)
                return self._lane(None), KvRows.of(keys, kept)

    def _lane(self, targets: tuple[int, ...] | None) -> KvLane:
        lane = self._lanes.get(targets)
        if lane is None:
            if len(self._lanes) >= LANES_MAX:
                self._lanes.clear()
            lane = KvLane(self._table.table_id, self._table.schema_id, targets)
            self._lanes[targets] = lane
        return lane


def _slice(rows: KvRows, start: int, end: int) -> KvRows:
    return rows.take(slice(start, end))
