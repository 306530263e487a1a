"""How rows of log tables and of primary-key tables are put in order and into bytes."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from headwater.client.epochs.cut import Order
from headwater.client.epochs.intake import Meaning
from headwater.client.epochs.order import ContentOrder, KeyOrder
from headwater.client.writing.batches import Lane, Rows
from headwater.client.writing.kv_encoding import KvEncoding
from headwater.client.writing.kv_lane import KvLane, KvRows
from headwater.client.writing.log_lane import LogLane, LogRows
from headwater.client.writing.target_columns import target_columns
from headwater.model.table import TableInfo
from headwater.rows.row_bytes import Mask, RowBytes


class Ordering(Protocol):
    """Know the one order of rows."""

    def of(self, rows: Sequence[pa.RecordBatch], /) -> Order:
        """Return rows in their order."""
        ...


class Coding(Protocol):
    """Know how rows of one table are written."""

    @property
    def lane(self) -> Lane:
        """Return who encodes batches and requests."""
        ...

    @property
    def order(self) -> Ordering:
        """Return the one order of rows."""
        ...

    def rows(self, batch: pa.RecordBatch, deletes: Mask) -> Rows:
        """Return rows as the lane takes them."""
        ...


class LogCoding:
    """Append rows."""

    def __init__(self, table: TableInfo) -> None:
        self.lane: Lane = LogLane(table)
        self.order: Ordering = ContentOrder(table.schema)

    def rows(self, batch: pa.RecordBatch, deletes: Mask) -> Rows:
        """Return rows to append."""
        assert not deletes.any()
        return LogRows.of(batch)


class KvCoding:
    """Upsert rows, and delete by key; one batch may do both."""

    def __init__(self, table: TableInfo, meaning: Meaning) -> None:
        self._columns = meaning.columns
        self._encoding = KvEncoding(table)
        targets = target_columns(table.schema, meaning.columns)
        self.lane: Lane = KvLane(table.table_id, table.schema_id, targets)
        self.order: Ordering = KeyOrder(self._encoding.key_names, self._encoding.key_encoder)

    def rows(self, batch: pa.RecordBatch, deletes: Mask) -> Rows:
        """Return keys with their rows; deletes have none."""
        keys = self._encoding.keys(batch)
        rows = self._encoding.rows(batch, self._columns)
        ends = np.where(deletes, rows.starts, rows.ends)
        return KvRows.of(keys, RowBytes(rows.data, rows.starts, ends))


def coding_of(table: TableInfo, meaning: Meaning) -> Coding:
    """Return how rows of a table are written."""
    return KvCoding(table, meaning) if table.is_keyed else LogCoding(table)
