"""Plan a write: which partition and bucket each row goes to, and as which bytes.

Planning maps values to values: it sends nothing, waits for nothing, and may run in any thread.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import count
from types import NoneType
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from headwater.cluster.router import Router, Share, TableKeys
from headwater.config.client import ClientSettings
from headwater.errors import HeadwaterError
from headwater.model import LogPosition, TableInfo
from headwater.model.arrow import arrow_schema
from headwater.rows.buckets import BucketFunction, fluss_bucket
from headwater.rows.compacted.one_row import OneKeyEncoder, OneRowEncoder
from headwater.rows.keys import primary_key_format
from headwater.rows.kv_batch import build_kv_record
from headwater.rows.row_bytes import RowBytes
from headwater.runtime.clock import random_fraction
from headwater.write import batches, encode

ROWS_MAX = 32
"""More rows than that gain nothing by the short way."""
ANYWHERE = Share(None, None, None)

K_contra = TypeVar("K_contra", contravariant=True)
Kinds = frozenset[type]


class Planner(Protocol[K_contra]):
    """Share out the rows of one table."""

    def plan(self, kind: K_contra, batch: pa.RecordBatch) -> Sequence[batches.PlacedRows]:
        """Return the rows of a batch by partition and bucket; this may take long."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FewRows:
    """Hold few rows of one bucket, ready to be sent."""

    lane: batches.Lane
    payload: batches.Payload
    partition: str | None
    bucket: int
    count: int
    rows: Callable[[], batches.WriteRows]
    """The same rows, as the long way holds them."""


class FewPlanner(Protocol):
    """Encode few rows of a table, and find their bucket."""

    def few(self, rows: object) -> FewRows | None:
        """Return rows ready to be sent, or None to leave them to the long way."""
        ...


# Rows of plain values, as columns.


class FewColumns:
    """Make columns of few rows, where that takes no more than Arrow itself does."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._names = tuple(schema.names)
        self._types = tuple(schema.types)
        self._kinds = tuple(map(_kinds_of, schema.types))
        self._required = tuple(at for at, field in enumerate(schema) if not field.nullable)
        self._is_known = all(kinds for kinds in self._kinds) and bool(self._names)

    def batch(self, columns: Sequence[tuple[object, ...]]) -> pa.RecordBatch | None:
        """Return rows as a batch; None leaves them to the long way, to be written or refused."""
        for column, kinds in zip(columns, self._kinds, strict=True):
            if not kinds.issuperset(map(type, column)):
                return None
        for at in self._required:
            if None in columns[at]:
                return None
        try:
            arrays = list(map(pa.array, columns, self._types))
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return None
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return batch if batch.nbytes <= encode.INLINE_BYTES_MAX else None

    def values(self, rows: object) -> Sequence[tuple[object, ...]] | None:
        """Return the values of each row in the order of the columns, None for anything else."""
        if not self._is_known:
            return None
        if type(rows) is dict:
            one = self._picked(rows)
            return None if one is None else (one,)
        if type(rows) is not list or not 0 < len(rows) <= ROWS_MAX:
            return None
        found = []
        for row in rows:
            if type(row) is dict:
                one = self._picked(row)
            else:
                one = row if type(row) is tuple and len(row) == len(self._names) else None
            if one is None:
                return None
            found.append(one)
        return found

    def _picked(self, row: Mapping[str, object]) -> tuple[object, ...] | None:
        """Return the values of a row that names no other columns; what it leaves out is null."""
        is_known = len(row) == sum(map(row.__contains__, self._names))
        return tuple(map(row.get, self._names)) if is_known else None


def _kinds_of(kind: pa.DataType) -> Kinds:
    """Return the types of values that a column takes as they are; none leaves it to others."""
    if pa.types.is_integer(kind):
        return frozenset({int, NoneType})
    if pa.types.is_float64(kind):
        return frozenset({float, int, NoneType})
    if pa.types.is_string(kind):
        return frozenset({str, NoneType})
    if pa.types.is_boolean(kind):
        return frozenset({bool, NoneType})
    if pa.types.is_binary(kind):
        return frozenset({bytes, NoneType})
    if pa.types.is_decimal(kind):
        return frozenset({Decimal, int, NoneType})
    if pa.types.is_date(kind):
        return frozenset({date, NoneType})
    return frozenset()


# Rows of log tables.


class Wishes(Protocol):
    """Know how the server wants batches."""

    @property
    def plain_bytes_max(self) -> int:
        """Return how many bytes need no compression."""
        ...


class LogPlanner:
    """Plan appends to one log table; batches have the schema of the table."""

    def __init__(self, table: TableInfo, settings: ClientSettings, *, wishes: Wishes) -> None:
        self._settings = settings
        self._lane = encode.LogLane(table, plain_bytes_max=lambda: wishes.plain_bytes_max)
        self._router = Router.of(table.descriptor)
        self._is_spread = bool(self._router.partition_keys or self._router.bucket_keys)
        self._columns = FewColumns(self._lane.arrow)
        self._bucket_count = table.bucket_count
        # Rows that may go to any bucket go to one after the other, as each call is a batch.
        self._turns = count(int(random_fraction() * table.bucket_count))

    def plan(self, _: None, batch: pa.RecordBatch) -> Sequence[batches.PlacedRows]:
        """Return the rows of a batch by partition and bucket."""
        return [
            batches.PlacedRows(self._lane, share.partition, share.bucket, rows)
            for share in self._router.route(batch)
            for rows in batches.cut(_taken(batch, share), self._settings, slice_of=_slice_log)
        ]

    def few(self, rows: object) -> FewRows | None:
        """Return rows ready to be sent, or None to leave them to the long way."""
        values = self._columns.values(rows)
        if values is None:
            return None
        columns = tuple(zip(*values, strict=True))
        share, payload, held = ANYWHERE, self._lane.encoded_few(columns), None
        if payload is None or self._is_spread:
            batch = self._columns.batch(columns)
            found = None if batch is None else self._only_share(batch)
            if batch is None or found is None:
                return None
            share, payload, held = found, payload or self._lane.encoded(batch), batch
        bucket = next(self._turns) % self._bucket_count if share.bucket is None else share.bucket
        place, count = share.partition, len(values)
        return FewRows(
            self._lane, payload, place, bucket, count, partial(self._long, columns, held)
        )

    def _long(
        self, columns: Sequence[tuple[object, ...]], batch: pa.RecordBatch | None
    ) -> encode.LogRows:
        """Return few rows as the long way holds them."""
        if batch is None:
            arrays = list(map(pa.array, columns, self._lane.arrow.types))
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._lane.arrow)
        return encode.LogRows.of(batch)

    def _only_share(self, batch: pa.RecordBatch) -> Share | None:
        """Return where all rows go, or None if they go to several places, or to none."""
        if not self._is_spread:
            return ANYWHERE
        try:
            shares = self._router.route(batch)
        except HeadwaterError:
            return None  # The long way says what is wrong.
        return shares[0] if len(shares) == 1 else None


def _taken(batch: pa.RecordBatch, share: Share) -> encode.LogRows:
    return encode.LogRows.of(batch if share.rows is None else batch.take(pa.array(share.rows)))


def _slice_log(rows: encode.LogRows, start: int, end: int) -> encode.LogRows:
    return encode.LogRows.of(rows.batch.slice(start, end - start))


# Rows and deletes of primary-key tables.

LANES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Upsert:
    """Write these columns, None for all."""

    columns: tuple[str, ...] | None
    only_if: tuple[LogPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete by key."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Write some rows, and delete others by their keys: a byte for each says which."""

    deletes: bytes


KvKind = Upsert | Delete | Change


class KvPlanner:
    """Plan upserts into one primary-key table, and deletes from it."""

    def __init__(self, table: TableInfo, settings: ClientSettings) -> None:
        self._settings = settings
        self._table = table
        self._encoding = encode.KvEncoding(table)
        self._router = Router.of(table.descriptor)
        self._lanes: dict[tuple[int, ...] | None, encode.KvLane] = {}
        self._few = FewKv.of(table)

    def few(self, rows: object) -> FewRows | None:
        """Return rows ready to be sent, or None to leave them to the long way."""
        return None if self._few is None else self._few.few(rows)

    def plan(self, kind: KvKind, batch: pa.RecordBatch) -> Sequence[batches.PlacedRows]:
        """Share rows out: 1. encode keys and rows once 2. route 3. take and cut each share."""
        lane, rows = self._encoded(kind, batch)
        shares = [(share, rows.take(share.rows)) for share in self._router.route(batch)]
        return [
            # Nobody needs a partition to delete from.
            batches.PlacedRows(
                lane, share.partition, share.bucket, piece, bool(taken.rows.lengths.any())
            )
            for share, taken in shares
            for piece in batches.cut(taken, self._settings, slice_of=_slice_kv)
        ]

    def _encoded(self, kind: KvKind, batch: pa.RecordBatch) -> tuple[encode.KvLane, encode.KvRows]:
        keys = self._encoding.keys(batch)
        match kind:
            case Delete():
                return self._lane(None), encode.KvRows.deleting(keys)
            case Upsert(columns, only_if):
                lane = self._lane(encode.target_columns(self._table.schema, columns))
                if only_if:
                    # A lane of its own: rows that share a batch share its conditions.
                    lane = replace(lane, only_if=only_if)
                return lane, encode.KvRows.of(keys, self._encoding.rows(batch, columns))
            case Change(deletes):
                rows = self._encoding.rows(batch, None)
                mask = np.frombuffer(deletes, np.uint8) != 0
                ends = np.where(mask, rows.starts, rows.ends)
                kept = RowBytes(rows.data, rows.starts, ends)
                return self._lane(None), encode.KvRows.of(keys, kept)

    def _lane(self, targets: tuple[int, ...] | None) -> encode.KvLane:
        lane = self._lanes.get(targets)
        if lane is None:
            if len(self._lanes) >= LANES_MAX:
                self._lanes.clear()
            lane = encode.KvLane(self._table.table_id, self._table.schema_id, targets)
            self._lanes[targets] = lane
        return lane


def _slice_kv(rows: encode.KvRows, start: int, end: int) -> encode.KvRows:
    return rows.take(slice(start, end))


@dataclass(frozen=True, slots=True, eq=False)
class FewKv:
    """Encode one row of a primary-key table whose columns are of simple types."""

    lane: encode.KvLane
    columns: "FewColumns"
    rows: OneRowEncoder
    keys: OneKeyEncoder
    key_columns: tuple[int, ...]
    bucket_count: int

    @classmethod
    def of(cls, table: TableInfo) -> "FewKv | None":
        """Return an encoder, or None if rows of the table take the long way."""
        descriptor, schema = table.descriptor, table.schema
        names = descriptor.physical_primary_key
        rows = OneRowEncoder.of([column.type for column in schema.columns])
        keys = OneKeyEncoder.of([schema.column(name).type for name in names])
        buckets = TableKeys.of(descriptor)
        is_plain = primary_key_format(descriptor) is None and not descriptor.partition_keys
        has_own = buckets is not None and buckets.function is BucketFunction.FLUSS
        is_whole = (descriptor.bucket_keys or names) == names and not schema.auto_increment
        if rows is None or keys is None or not (is_plain and has_own and is_whole):
            return None
        lane = encode.KvLane(table.table_id, table.schema_id, None)
        columns, places = FewColumns(arrow_schema(schema)), tuple(map(schema.index_of, names))
        return cls(lane, columns, rows, keys, places, table.bucket_count)

    def few(self, rows: object) -> FewRows | None:
        """Return a row ready to be sent, or None to leave it to the long way."""
        values = self.columns.values(rows)
        if values is None or len(values) != 1:
            return None
        (row,) = values
        for value, kinds in zip(row, self.rows.kinds, strict=True):
            if type(value) not in kinds:
                return None
        try:
            written = self.rows.written(row)
            key = self.keys.written([row[at] for at in self.key_columns])
        except (ValueError, OverflowError, struct.error):
            return None  # The long way says what is wrong.
        if key is None or len(written) > encode.INLINE_BYTES_MAX:
            return None
        payload = encode.KvPayload(build_kv_record(key, written), self.lane.schema_id, 1)
        bucket = fluss_bucket(key, self.bucket_count)
        return FewRows(self.lane, payload, None, bucket, 1, partial(_kv_rows, key, written))


def _kv_rows(key: bytes, row: bytes) -> encode.KvRows:
    return encode.KvRows.of(RowBytes.of([key]), RowBytes.of([row]))
