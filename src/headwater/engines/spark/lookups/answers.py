"""What was found for keys: rows, and for each key where its own begin and how many they are."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.rows.row_bytes import Longs


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Hold the rows found for keys, none, one or several for each."""

    rows: pa.RecordBatch
    starts: Longs
    counts: Longs

    @classmethod
    def of(cls, rows: pa.RecordBatch, owners: Longs, *, keys: int) -> "Answers":
        """Put together rows that come in the order of their keys, and the key of each."""
        counts = np.bincount(owners, minlength=keys).astype(np.int64)
        return cls(rows, _starts(counts), counts)

    def select(self, positions: Longs) -> "Answers":
        """Return the answers to some of the keys, over the same rows."""
        return Answers(self.rows, self.starts[positions], self.counts[positions])

    def compact(self) -> "Answers":
        """Return the same answers without the rows of other keys."""
        rows = self.rows.take(pa.array(spread(self.starts, self.counts)))
        return Answers(rows, _starts(self.counts), self.counts)

    def plus(self, others: "Answers") -> "Answers":
        """Return these answers, and then others."""
        rows = pa.Table.from_batches([self.rows, others.rows], self.rows.schema)
        return Answers(
            one_batch(rows),
            np.concatenate((self.starts, others.starts + self.rows.num_rows)),
            np.concatenate((self.counts, others.counts)),
        )


def owners_of(found: pa.Array, keys: pa.Array) -> Longs:
    """Return for each row that was found the position of its key."""
    if len(found) == len(keys) and found.equals(keys):
        return np.arange(len(keys))
    return np.asarray(pc.index_in(found, value_set=keys), np.int64)


def spread(starts: Longs, counts: Longs) -> Longs:
    """Return all positions of ranges, one range after the other."""
    within = np.arange(counts.sum()) - np.repeat(_starts(counts), counts)
    return np.repeat(starts, counts) + within


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch."""
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _starts(counts: Longs) -> Longs:
    return np.cumsum(counts) - counts
