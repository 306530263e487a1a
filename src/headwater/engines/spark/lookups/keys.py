"""The keys of rows that are to be enriched: each different one once, and who asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.types import DataType
from headwater.rows.compacted.keys import KeyEncoder
from headwater.rows.row_bytes import Longs, Mask

NO_KEY = -1


@dataclass(frozen=True, slots=True, eq=False)
class DistinctKeys:
    """Hold different keys, and for each row which of them it has."""

    keys: pa.RecordBatch
    ids: pa.Array
    """One value for each key that no other key has."""
    asked: Longs
    """The position of the key of each row, or `NO_KEY` where part of it is null."""


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Take the keys out of rows."""

    given: tuple[str, ...]
    """The columns of the rows that hold the key."""
    schema: pa.Schema
    """The columns of the table that they are looked up in."""
    types: tuple[DataType, ...]

    def distinct(self, batches: Sequence[pa.RecordBatch]) -> DistinctKeys:
        """Return the keys of several batches of rows."""
        columns = [
            pa.concat_arrays([batch.column(name) for batch in batches]).cast(field.type)
            for name, field in zip(self.given, self.schema, strict=True)
        ]
        keys = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        has_key = _without_nulls(columns)
        if has_key is not None:
            keys = keys.filter(pa.array(has_key))
        encoded = self.ids(keys).dictionary_encode()
        positions = encoded.indices.to_numpy().astype(np.int64)
        asked = positions
        if has_key is not None:
            asked = np.full(len(has_key), NO_KEY, np.int64)
            asked[has_key] = positions
        return DistinctKeys(
            keys.take(pa.array(_firsts(positions, len(encoded.dictionary)))),
            encoded.dictionary,
            asked,
        )

    def ids(self, keys: pa.RecordBatch) -> pa.Array:
        """Return one value for each key that no other key has."""
        if keys.num_columns == 1:
            return keys.column(0)
        return KeyEncoder.of(self.types).encode(keys.columns).to_arrow()


def _without_nulls(
    columns: Sequence[pa.Array],
) -> Mask | None:
    """Tell which rows have a whole key, or None where all do."""
    partial = [column for column in columns if column.null_count]
    if not partial:
        return None
    valid = pc.is_valid(partial[0])
    for column in partial[1:]:
        valid = pc.and_(valid, pc.is_valid(column))
    return np.asarray(valid)


def _firsts(positions: Longs, count: int) -> Longs:
    """Return where each position occurs first."""
    firsts = np.empty(count, np.int64)
    # Of several values that go to one place the last stays, so they come backwards.
    firsts[positions[::-1]] = np.arange(len(positions) - 1, -1, -1)
    return firsts
