"""The one order in which the rows of a lane are sent, however they come in an attempt."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.epochs.cut import Order, is_nested
from headwater.kv.hashing import hash_keys
from headwater.model.schema import Schema
from headwater.model.types import (
    BigIntType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    TimestampLtzType,
    TimestampType,
)
from headwater.rows.compacted.encode import RowEncoder
from headwater.rows.key_formats import Encoder
from headwater.rows.row_bytes import Longs, Mask, Words

# What is compared first: times, so that rows stay near the order in which things happened; then
# what tells many rows apart and is quick to compare. Never to be changed, as batches rest on it.
_FIRST: tuple[tuple[type[DataType], ...], ...] = (
    (TimestampType, TimestampLtzType, DateType),
    (BigIntType, IntType, DecimalType),
)
_FLOATS = (FloatType, DoubleType)
# Two hashes that both agree are of one key.
_SEEDS = (0, 0x5EED)


class ContentOrder:
    """Order rows of a log table by what they hold, so that only equal rows may swap places."""

    def __init__(self, schema: Schema) -> None:
        plain = [column for column in schema.columns if not is_nested(column.type)]
        self._names = [column.name for column in sorted(plain, key=lambda each: _rank(each.type))]
        # Zeros of both signs compare as equal, and so do all that are not numbers.
        self._is_total = len(plain) == len(schema.columns) and not any(
            isinstance(column.type, _FLOATS) for column in plain
        )
        self._rows = RowEncoder.of([column.type for column in schema.columns])

    def of(self, rows: Sequence[pa.RecordBatch]) -> Order:
        """Return rows in their order; any of them may begin a batch."""
        places = self._places(rows)
        return Order(places, np.ones(len(places), np.bool_))

    def _places(self, rows: Sequence[pa.RecordBatch]) -> Longs:
        """Return the places of rows in their order.

        1. Sort by the columns that can be compared. 2. Find rows that this leaves equal.
        3. Sort those by their bytes.
        """
        table = pa.Table.from_batches(rows)
        if not self._names:
            return self._by_bytes(table, np.arange(len(table)), np.ones(len(table), np.bool_))
        if _is_rising(table.column(self._names[0])):
            # Rows come in the order of their time more often than not.
            return np.arange(len(table))
        keys = [(name, "ascending") for name in self._names]
        order: Longs = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
        if self._is_total:
            return order
        ties = _ties(table, order, self._names)
        return self._by_bytes(table, order, ties) if ties.any() else order

    def _by_bytes(self, table: pa.Table, order: Longs, ties: Mask) -> Longs:
        """Sort rows that are tied with the one before them, within each run of such rows."""
        runs = np.cumsum(~ties)
        follows = np.append(ties[1:], False) if len(ties) else ties
        tied = np.flatnonzero(ties | follows)
        rows = table.take(pa.array(order[tied])).combine_chunks()
        columns = [column.combine_chunks() for column in rows.columns]
        encoded = self._rows.encode(columns).to_arrow()
        found = pa.table({"run": pa.array(runs[tied]), "row": encoded})
        keys = [("run", "ascending"), ("row", "ascending")]
        # Runs lie one after the other, so every row goes to a place of its own run.
        ordered = order.copy()
        ordered[tied] = order[tied][pc.sort_indices(found, sort_keys=keys).to_numpy()]
        return ordered


class KeyOrder:
    """Order rows of a primary-key table by a hash of their key; those of one key as they come."""

    def __init__(self, names: Sequence[str], keys: Encoder) -> None:
        self._names = tuple(names)
        self._keys = keys

    def of(self, rows: Sequence[pa.RecordBatch]) -> Order:
        """Return rows in their order; those of one key belong into one batch."""
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
    """Tell whether each value is greater than the one before, which is quick to see of numbers."""
    if column.null_count or not (pa.types.is_integer(column.type) or _is_moment(column.type)):
        return False
    chunks = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks if len(chunk)]
    borders = [before[-1] < after[0] for before, after in pairwise(chunks)]
    return all(borders) and all(bool((chunk[:-1] < chunk[1:]).all()) for chunk in chunks)


def _is_moment(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _changes(hashes: Words) -> Mask:
    """Tell which values differ from the one before; the first does."""
    changes = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=changes[1:])
    return changes


def _rank(kind: DataType) -> int:
    for rank, kinds in enumerate(_FIRST):
        if isinstance(kind, kinds):
            return rank
    return len(_FIRST) + isinstance(kind, _FLOATS)


def _ties(table: pa.Table, order: Longs, names: Sequence[str]) -> Mask:
    """Tell which rows, in order, are equal to the one before them in all these columns."""
    ties = np.zeros(len(order), np.bool_)
    left = np.arange(1, len(order))
    for name in names:
        # Few rows are left after the first columns, so most of them are looked at by few.
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
