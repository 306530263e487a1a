"""Which rows of a batch go to which partition and bucket."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.client.bucket_keys import BucketKeys
from headwater.errors import InvalidPartitionError
from headwater.model.descriptor import TableDescriptor
from headwater.model.partition import partition_name
from headwater.model.partition_values import partition_texts
from headwater.model.path import check_partition_value
from headwater.model.types import DataType

Longs = npt.NDArray[np.int64]

_COUNTED_MAX = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """Hold the rows of a batch that go to one bucket."""

    partition: str | None
    """The name of the partition, None for a table without partitions."""
    bucket: int | None
    """None if there is no bucket key, so that any bucket will do."""
    rows: Longs | None
    """Positions in the batch, in order; None for all rows."""


@dataclass(frozen=True, slots=True)
class Router:
    """Find the partition and bucket of rows of one table; made once for many batches."""

    partition_keys: tuple[tuple[str, DataType], ...]
    bucket_keys: BucketKeys | None
    bucket_count: int

    @classmethod
    def of(cls, descriptor: TableDescriptor) -> "Router":
        """Work out how rows of a table are spread."""
        schema = descriptor.schema
        return cls(
            tuple((name, schema.column(name).type) for name in descriptor.partition_keys),
            BucketKeys.of(descriptor),
            descriptor.bucket_count or 1,
        )

    def route(self, batch: pa.RecordBatch) -> list[Share]:
        """Share out all rows, ordered by partition and bucket.

        1. The partition of every row. 2. Its bucket. 3. The rows of each pair, in their order.
        """
        if not batch.num_rows:
            return []
        names, places = self._partitions(batch)
        if self.bucket_keys is None:
            return [Share(names[place], None, rows) for place, rows in _groups(places)]
        buckets = self.bucket_keys.buckets(batch, self.bucket_count)
        slots = places * self.bucket_count + buckets if len(names) > 1 else buckets
        return [
            Share(names[slot // self.bucket_count], slot % self.bucket_count, rows)
            for slot, rows in _groups(slots)
        ]

    def _partitions(self, batch: pa.RecordBatch) -> tuple[Sequence[str | None], Longs]:
        """Return the names of the partitions in order, and the place of each row's among them."""
        if not self.partition_keys:
            return (None,), np.zeros(batch.num_rows, np.int64)
        first, *others = self.partition_keys
        names, places = _coded_texts(batch, *first)
        for each in others:
            texts, codes = _coded_texts(batch, *each)
            pairs, places = np.unique(places * len(texts) + codes, return_inverse=True)
            names = [
                partition_name((names[pair // len(texts)], texts[pair % len(texts)]))
                for pair in pairs.tolist()
            ]
        return _ordered(names, places)


def _coded_texts(batch: pa.RecordBatch, name: str, data_type: DataType) -> tuple[list[str], Longs]:
    """Return the distinct texts of a partition column, and which of them each row has."""
    column = batch.column(name)
    if column.null_count:
        raise InvalidPartitionError(
            f"The partition column '{name}' holds {column.null_count} nulls.",
            hint="Write a value for every partition column in every row.",
        )
    encoded = column.dictionary_encode()
    texts = [check_partition_value(text) for text in partition_texts(encoded.dictionary, data_type)]
    return texts, encoded.indices.to_numpy().astype(np.int64)


def _ordered(names: list[str], places: Longs) -> tuple[list[str], Longs]:
    """Put names in order, and join those that several values share."""
    distinct, ranks = np.unique(np.array(names), return_inverse=True)
    return distinct.tolist(), ranks[places]


def _groups(codes: npt.NDArray[np.integer]) -> list[tuple[int, Longs | None]]:
    """Return each code that occurs, in order, with the places where it does."""
    least, most = int(codes.min()), int(codes.max())
    if least == most:
        return [(least, None)]
    if most - least < _COUNTED_MAX:
        # Short numbers are sorted by counting them.
        return _sorted_groups((codes - least).astype(np.uint16), np.arange(least, most + 1))
    present, short = np.unique(codes, return_inverse=True)
    return _sorted_groups(short, present)


def _sorted_groups(
    places: npt.NDArray[np.integer], codes: npt.NDArray[np.integer]
) -> list[tuple[int, Longs | None]]:
    counts = np.bincount(places, minlength=len(codes))
    parts = np.split(np.argsort(places, kind="stable"), np.cumsum(counts)[:-1])
    return [(code, rows) for code, rows in zip(codes.tolist(), parts, strict=True) if len(rows)]
