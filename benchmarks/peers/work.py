"""The work that all peers are given: rows, keys, sizes, and the names of what is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
import pyarrow as pa

from benchmarks.rows import NARROW, narrow_batch

BATCH_ROWS = 10_000
BUCKETS = 4
KEY = "k"
SOME_COLUMNS = ("x",)
"""One of ten."""
STRING_BYTES = 20


class Work(StrEnum):
    """Name what is measured."""

    APPEND = "append"
    ACK = "ack of one row"
    VISIBLE = "append to visible"
    SCAN = "scan"
    SCAN_SOME = "scan of 1 of 10 columns"
    UPSERT = "upsert with changelog"
    LOOKUP = "lookup of one key"
    LOOKUP_MANY = "lookup of 100 keys"


RATES = (Work.APPEND, Work.SCAN, Work.SCAN_SOME, Work.UPSERT)
"""Told in rows per second; the others are times, told as medians and 99th percentiles."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Say how much of everything there is."""

    append_rows: int = 1_000_000
    upsert_rows: int = 200_000
    acks: int = 300
    lookups: int = 300
    lookup_batches: int = 60
    rounds: int = 5

    def scaled(self, times: float) -> "Sizes":
        """Return so many times as much, in as many rounds."""

        def of(count: int, least: int = 1) -> int:
            return max(least, int(count * times))

        return Sizes(
            append_rows=of(self.append_rows // BATCH_ROWS) * BATCH_ROWS,
            upsert_rows=of(self.upsert_rows // BATCH_ROWS) * BATCH_ROWS,
            acks=of(self.acks, 20),
            lookups=of(self.lookups, 20),
            lookup_batches=of(self.lookup_batches, 10),
            rounds=self.rounds,
        )


@cache
def batches(rows: int) -> tuple[pa.RecordBatch, ...]:
    """Return rows of 104 bytes in 10 columns; the same ones every time."""
    return tuple(narrow_batch(BATCH_ROWS, seed=number) for number in range(rows // BATCH_ROWS))


@cache
def keyed_batches(rows: int) -> tuple[pa.RecordBatch, ...]:
    """Return the same rows with keys from 0 up, in an order by chance."""
    keys = np.random.default_rng(7).permutation(rows)
    place = NARROW.get_field_index(KEY)
    return tuple(
        batch.set_column(place, NARROW.field(KEY), pa.array(part))
        for batch, part in zip(batches(rows), np.array_split(keys, rows // BATCH_ROWS), strict=True)
    )


@cache
def messages(rows: int) -> tuple[bytes, ...]:
    """Return each row as one message of 96 bytes, for those who know of no columns.

    They are packed before the clock runs: what encoding and decoding cost them is left out.
    """
    return tuple(message for batch in batches(rows) for message in packed(batch))


def packed(batch: pa.RecordBatch) -> Sequence[bytes]:
    """Return the rows of a batch as bytes, one after the other."""
    kinds = [(field.name, _kind(field.type)) for field in batch.schema]
    rows = np.empty(batch.num_rows, np.dtype(kinds))
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        rows[name] = column.to_numpy(zero_copy_only=False)
    data, size = rows.tobytes(), rows.dtype.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def _kind(of: pa.DataType) -> str:
    if pa.types.is_string(of):
        return f"S{STRING_BYTES}"
    return "<M8[us]" if pa.types.is_timestamp(of) else np.dtype(of.to_pandas_dtype()).str


def key_bytes(key: int) -> bytes:
    """Return a key for those who know keys as bytes only."""
    return b"k%d" % key
