"""Order the rows of a lane and cut them into batches, identically in every attempt.

A retry must send the same batches under the same numbers, or the server could not recognise them.
So rows are sorted by content (log tables) or by a hash of their key (primary-key tables), and cut
by sizes that depend on values only, not on how they lie in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from headwater.epochs.intake import ChunkedRows, Meaning, PlaceRows
from headwater.kv.hashes import hash_keys
from headwater.model import Schema, TableInfo, types
from headwater.rows.compacted.coders import RowEncoder
from headwater.rows.compute import pc
from headwater.rows.keys import Encoder
from headwater.rows.row_bytes import Longs, Mask, RowBytes, Words, starts_of
from headwater.write.batches import Lane, Payload, WriteRows
from headwater.write.encode import KvEncoding, KvLane, KvRows, LogLane, LogRows, target_columns

# Cutting rows into batches.

# Not settings: a newer version must cut exactly as the older one did.
BATCH_ROWS_MAX = 65_536
BATCH_BYTES_MAX = 2 * 1024 * 1024
# Rows of one key stay together up to this limit.
GROUP_ROWS_MAX = 4 * BATCH_ROWS_MAX
GROUP_BYTES_MAX = 4 * BATCH_BYTES_MAX

_NESTED = (types.ArrayType, types.MapType, types.RowType)
_BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The order of rows, and where groups start that must share a batch.

    The rows of one key are such a group. An attempt may receive them in another order, and must
    still put the same rows into the same batch.
    """

    places: Longs
    starts: Mask


class Sizes:
    """Measures rows of one table by their values only, not by how they lie in memory."""

    def __init__(self, schema: Schema) -> None:
        self._types = {column.name: column.type for column in schema.columns}
        self._nested = {
            name: RowEncoder.of([kind])
            for name, kind in self._types.items()
            if isinstance(kind, _NESTED)
        }

    def of(self, batch: pa.RecordBatch) -> Longs:
        """Estimate the bytes of each row."""
        sizes = np.zeros(batch.num_rows, np.int64)
        for field, column in zip(batch.schema, batch.columns, strict=True):
            sizes += self._column(field.name, column)
        return sizes

    def _column(self, name: str, column: pa.Array) -> Longs | int:
        if name in self._nested:
            return self._nested[name].encode([column]).lengths
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths: Longs = pc.fill_null(pc.binary_length(column), 0).to_numpy()
            return lengths
        return column.type.bit_width // _BITS or 1


def cuts_of(
    sizes: Longs, *, rows_max: int, bytes_max: int, starts: Mask | None = None
) -> list[slice]:
    """Cut consecutive rows into batches.

    With `starts`, a batch begins only at one of them. A group larger than the limits becomes a
    batch of its own.
    """
    if not len(sizes):
        return []
    first = np.arange(len(sizes)) if starts is None else np.flatnonzero(starts)
    # The start of each group, and the end of the last.
    rows = np.append(first, len(sizes))
    taken = starts_of(sizes)[rows]
    batches, at = [], 0
    while at < len(first):
        fitting = min(
            int(np.searchsorted(taken, taken[at] + bytes_max, side="right")),
            int(np.searchsorted(rows, rows[at] + rows_max, side="right")),
        )
        following = max(fitting - 1, at + 1)
        batches.append(slice(int(rows[at]), int(rows[following])))
        at = following
    return batches


def is_nested(kind: types.DataType) -> bool:
    """Tell whether values of a type contain other values."""
    return isinstance(kind, _NESTED)


def batches_of(order: Order, sizes: Longs) -> Sequence[Longs]:
    """Assign rows to batches, given their sizes in order; return the row positions per batch."""
    cuts = cuts_of(
        sizes,
        rows_max=BATCH_ROWS_MAX,
        bytes_max=BATCH_BYTES_MAX,
        starts=order.starts | _of_large_groups(order.starts, sizes),
    )
    return [order.places[cut] for cut in cuts]


def _of_large_groups(starts: Mask, sizes: Longs) -> Mask:
    """Tell which rows belong to a group too large for a server to accept as one batch."""
    if not len(sizes):
        return starts
    first = np.flatnonzero(starts)
    counts = np.diff(np.append(first, len(sizes)))
    is_large = (np.add.reduceat(sizes, first) > GROUP_BYTES_MAX) | (counts > GROUP_ROWS_MAX)
    large: Mask = np.repeat(is_large, counts)
    return large


# The order in which the rows of a lane are sent, however they arrive.

# Compared first: times, so that rows stay close to the order of events; then columns that
# distinguish many rows and are cheap to compare. Never change this: retries depend on it.
_FIRST: tuple[tuple[type[types.DataType], ...], ...] = (
    (types.TimestampType, types.TimestampLtzType, types.DateType),
    (types.BigIntType, types.IntType, types.DecimalType),
)
_FLOATS = (types.FloatType, types.DoubleType)
# Two keys whose hashes both agree are taken as equal.
_SEEDS = (0, 0x5EED)


class ContentOrder:
    """Orders rows of a log table by content, so that only equal rows may swap places."""

    def __init__(self, schema: Schema) -> None:
        plain = [column for column in schema.columns if not is_nested(column.type)]
        self._names = [column.name for column in sorted(plain, key=lambda each: _rank(each.type))]
        # Zeros of both signs compare as equal, and so do all NaNs.
        self._is_total = len(plain) == len(schema.columns) and not any(
            isinstance(column.type, _FLOATS) for column in plain
        )
        self._rows = RowEncoder.of([column.type for column in schema.columns])

    def of(self, rows: Sequence[pa.RecordBatch]) -> Order:
        """Order the rows; any of them may begin a batch."""
        places = self._places(rows)
        return Order(places, np.ones(len(places), np.bool_))

    def _places(self, rows: Sequence[pa.RecordBatch]) -> Longs:
        """Compute the positions of rows in order.

        1. Sort by the comparable columns. 2. Find rows that are still tied. 3. Sort those by their
           bytes.
        """
        table = pa.Table.from_batches(rows)
        if not self._names:
            return self._by_bytes(table, np.arange(len(table)), np.ones(len(table), np.bool_))
        if _is_rising(table.column(self._names[0])):
            # Rows usually arrive in the order of their time.
            return np.arange(len(table))
        keys = [(name, "ascending") for name in self._names]
        order: Longs = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
        if self._is_total:
            return order
        ties = _ties(table, order, self._names)
        return self._by_bytes(table, order, ties) if ties.any() else order

    def _by_bytes(self, table: pa.Table, order: Longs, ties: Mask) -> Longs:
        """Sort rows that are tied with the one before, within each run of ties."""
        runs = np.cumsum(~ties)
        follows = np.append(ties[1:], False) if len(ties) else ties
        tied = np.flatnonzero(ties | follows)
        rows = table.take(pa.array(order[tied])).combine_chunks()
        columns = [column.combine_chunks() for column in rows.columns]
        encoded = self._rows.encode(columns).to_arrow()
        found = pa.table({"run": pa.array(runs[tied]), "row": encoded})
        keys = [("run", "ascending"), ("row", "ascending")]
        # Runs do not overlap, so every row stays within its own run.
        ordered = order.copy()
        ordered[tied] = order[tied][pc.sort_indices(found, sort_keys=keys).to_numpy()]
        return ordered


class KeyOrder:
    """Orders rows of a primary-key table by a hash of the key; rows of one key keep their order."""

    def __init__(self, names: Sequence[str], keys: Encoder) -> None:
        self._names = tuple(names)
        self._keys = keys

    def of(self, rows: Sequence[pa.RecordBatch]) -> Order:
        """Order the rows; those of one key belong in one batch."""
        parts = [self._hashes(each) for each in rows]
        first, second = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        places: Longs = np.argsort(first, kind="stable")
        is_new = _changes(first[places])
        if bool((_changes(second[places]) & ~is_new).any()):
            places = np.lexsort((second, first))
            is_new = _changes(first[places]) | _changes(second[places])
        return Order(places, is_new)

    def _hashes(self, rows: pa.RecordBatch) -> tuple[Words, Words]:
        keys = self._keys.encode([rows.column(name) for name in self._names])
        return hash_keys(keys, seed=_SEEDS[0]), hash_keys(keys, seed=_SEEDS[1])


def _is_rising(column: pa.ChunkedArray) -> bool:
    """Tell whether each value is greater than the one before; cheap for numbers."""
    if column.null_count or not (pa.types.is_integer(column.type) or _is_moment(column.type)):
        return False
    chunks = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks if len(chunk)]
    borders = [before[-1] < after[0] for before, after in pairwise(chunks)]
    return all(borders) and all(bool((chunk[:-1] < chunk[1:]).all()) for chunk in chunks)


def _is_moment(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _changes(hashes: Words) -> Mask:
    """Tell which values differ from the one before; the first always does."""
    changes = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=changes[1:])
    return changes


def _rank(kind: types.DataType) -> int:
    for rank, kinds in enumerate(_FIRST):
        if isinstance(kind, kinds):
            return rank
    return len(_FIRST) + isinstance(kind, _FLOATS)


def _ties(table: pa.Table, order: Longs, names: Sequence[str]) -> Mask:
    """Tell which rows, in order, equal the one before them in all these columns."""
    ties = np.zeros(len(order), np.bool_)
    left = np.arange(1, len(order))
    for name in names:
        # Few rows are still tied after the first columns, so later columns compare few.
        column = table.column(name)
        before, after = (column.take(pa.array(order[left - back])) for back in (1, 0))
        left = left[_same(before, after)]
    ties[left] = True
    return ties


def _same(before: pa.ChunkedArray, after: pa.ChunkedArray) -> Mask:
    both_null = pc.and_(pc.is_null(before), pc.is_null(after))
    same = pc.or_(pc.fill_null(pc.equal(before, after), False), both_null)
    if pa.types.is_floating(before.type):
        both_nan = pc.and_(pc.is_nan(before), pc.is_nan(after))
        same = pc.or_(same, pc.fill_null(both_nan, False))
    mask: Mask = same.to_numpy().astype(np.bool_)
    return mask


# How rows of log tables and of primary-key tables are ordered and encoded.


class Ordering(Protocol):
    """Determines the order of rows."""

    def of(self, rows: Sequence[pa.RecordBatch], /) -> Order:
        """Order the rows, identically in every attempt."""
        ...


class Coding(Protocol):
    """How rows of one table are written."""

    @property
    def lane(self) -> Lane:
        """Encoder of batches and requests."""
        ...

    @property
    def order(self) -> Ordering:
        """Order of the rows."""
        ...

    def rows(self, batch: pa.RecordBatch, deletes: Mask) -> WriteRows:
        """Convert rows to what the lane encodes."""
        ...


class LogCoding:
    """Appends rows."""

    def __init__(self, table: TableInfo) -> None:
        self.lane: Lane = LogLane(table)
        self.order: Ordering = ContentOrder(table.schema)

    def rows(self, batch: pa.RecordBatch, deletes: Mask) -> WriteRows:
        """Convert to rows to append."""
        assert not deletes.any()
        return LogRows.of(batch)


class KvCoding:
    """Upserts rows and deletes by key; one batch may do both."""

    def __init__(self, table: TableInfo, meaning: Meaning) -> None:
        self._columns = meaning.columns
        self._encoding = KvEncoding(table)
        targets = target_columns(table.schema, meaning.columns)
        self.lane: Lane = KvLane(table.table_id, table.schema_id, targets)
        self.order: Ordering = KeyOrder(self._encoding.key_names, self._encoding.key_encoder)

    def rows(self, batch: pa.RecordBatch, deletes: Mask) -> WriteRows:
        """Convert to keys with their rows; deletes have none."""
        keys = self._encoding.keys(batch)
        rows = self._encoding.rows(batch, self._columns)
        ends = np.where(deletes, rows.starts, rows.ends)
        return KvRows.of(keys, RowBytes(rows.data, rows.starts, ends))


def coding_of(table: TableInfo, meaning: Meaning) -> Coding:
    """Choose how rows of a table are written."""
    return KvCoding(table, meaning) if table.is_keyed else LogCoding(table)


class LaneBatches:
    """The batches of one lane; each is encoded on demand."""

    def __init__(self, held: PlaceRows, coding: Coding, schema: Schema) -> None:
        sizes, order = Sizes(schema), coding.order.of(held.chunks)
        self._coding = coding
        self._rows = ChunkedRows(held.chunks)
        self._deletes = np.concatenate(held.deletes)
        measured = np.concatenate([sizes.of(chunk) for chunk in held.chunks])
        self._batches = batches_of(order, measured[order.places])

    def __len__(self) -> int:
        return len(self._batches)

    def row_count(self, number: int) -> int:
        """Number of rows in a batch."""
        return len(self._batches[number])

    def rows(self, number: int) -> pa.RecordBatch:
        """The rows of a batch."""
        return self._rows.take(self._batches[number])

    def payload(self, number: int) -> Payload:
        """Encode a batch; the same bytes in every attempt with the same version."""
        deletes = self._deletes[self._batches[number]]
        return self._coding.lane.payload([self._coding.rows(self.rows(number), deletes)])
