"""Assigns the rows of a batch to partitions and buckets, by the encoded bytes of their keys."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater import errors
from headwater.config.options import DATALAKE_FORMAT, LakeFormat
from headwater.model import DataType, TableDescriptor
from headwater.model.partition_values import partition_texts
from headwater.model.path import check_partition_value, partition_name
from headwater.rows.buckets import BucketFunction, Buckets, buckets_of
from headwater.rows.keys import Encoder, key_encoder

# Clients of Apache Fluss disagree on the hash of some keys; which one to follow: java (the default)
# or pyfluss.
BUCKET_HASH = "headwater.bucket-hash"
_NULLS_ALLOWED = (BucketFunction.PAIMON, BucketFunction.PAIMON_UNSIGNED)
# Few enough rows that the keys of a block stay in the CPU cache until they are hashed.
_BLOCK_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class TableKeys:
    """Compute buckets from the key columns of rows; made once for many batches."""

    names: tuple[str, ...]
    encoder: Encoder
    function: BucketFunction

    @classmethod
    def of(cls, descriptor: TableDescriptor) -> "TableKeys | None":
        """Work out the bucket key of a table; None if rows may go to any bucket."""
        names = descriptor.bucket_keys or descriptor.physical_primary_key
        if not names:
            return None
        lake = DATALAKE_FORMAT.of(descriptor.properties)
        if lake is LakeFormat.HUDI:
            raise errors.UnsupportedError(
                "Rows cannot be written to a table in Hudi's format: its bucket hash is not "
                "supported.",
                hint="Write with a client of Apache Fluss.",
            )
        types = [descriptor.schema.column(name).type for name in names]
        return cls(names, key_encoder(types, lake), _function(descriptor, lake))

    def buckets(self, batch: pa.RecordBatch, count: int) -> Buckets:
        """Compute the bucket of every row."""
        columns = [batch.column(name) for name in self.names]
        if self.function not in _NULLS_ALLOWED:
            _check_present(self.names, columns)
        if count == 1:
            return np.zeros(batch.num_rows, np.int32)
        buckets = np.empty(batch.num_rows, np.int32)
        for first in range(0, batch.num_rows, _BLOCK_ROWS):
            keys = self.encoder.encode([column.slice(first, _BLOCK_ROWS) for column in columns])
            found = buckets_of(keys, count, function=self.function)
            buckets[first : first + _BLOCK_ROWS] = found
        return buckets


def _function(descriptor: TableDescriptor, lake: LakeFormat | None) -> BucketFunction:
    is_signed = _is_signed(descriptor)
    match lake:
        case LakeFormat.PAIMON:
            return BucketFunction.PAIMON if is_signed else BucketFunction.PAIMON_UNSIGNED
        case LakeFormat.ICEBERG:
            return BucketFunction.ICEBERG
        case _:
            return BucketFunction.FLUSS if is_signed else BucketFunction.FLUSS_UNSIGNED


def _is_signed(descriptor: TableDescriptor) -> bool:
    match descriptor.custom_properties.get(BUCKET_HASH, "java"):
        case "java":
            return True
        case "pyfluss":
            return False
        case other:
            raise errors.InvalidOptionError(
                f"'{BUCKET_HASH}' must be java or pyfluss, not {other!r}."
            )


def _check_present(names: Sequence[str], columns: Sequence[pa.Array]) -> None:
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            raise errors.InvalidValueError(
                f"The bucket key '{name}' contains {column.null_count} nulls.",
                hint="Set every bucket-key column in every row.",
            )


Longs = npt.NDArray[np.int64]

_COUNTED_MAX = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The rows of a batch that go to one bucket."""

    partition: str | None
    """The name of the partition; None for a table without partitions."""
    bucket: int | None
    """None if there is no bucket key: any bucket is fine."""
    rows: Longs | None
    """Positions in the batch, in order; None for all rows."""


@dataclass(frozen=True, slots=True)
class Router:
    """Find the partition and bucket of rows of one table; made once for many batches."""

    partition_keys: tuple[tuple[str, DataType], ...]
    bucket_keys: TableKeys | None
    bucket_count: int

    @classmethod
    def of(cls, descriptor: TableDescriptor) -> "Router":
        """Work out how rows of a table are distributed."""
        schema = descriptor.schema
        return cls(
            tuple((name, schema.column(name).type) for name in descriptor.partition_keys),
            TableKeys.of(descriptor),
            descriptor.bucket_count or 1,
        )

    def route(self, batch: pa.RecordBatch) -> list[Share]:
        """Split all rows, ordered by partition and bucket.

        1. The partition of every row. 2. Its bucket. 3. The rows of each pair, in order.
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
        """Return the partition names in order, and for each row the index of its partition."""
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
    """Return the distinct texts of a partition column, and for each row the index of its text."""
    column = batch.column(name)
    if column.null_count:
        raise errors.InvalidPartitionError(
            f"The partition column '{name}' contains {column.null_count} nulls.",
            hint="Set every partition column in every row.",
        )
    encoded = column.dictionary_encode()
    texts = [check_partition_value(text) for text in partition_texts(encoded.dictionary, data_type)]
    return texts, encoded.indices.to_numpy().astype(np.int64)


def _ordered(names: list[str], places: Longs) -> tuple[list[str], Longs]:
    """Sort the names and merge those that several values share."""
    distinct, ranks = np.unique(np.array(names), return_inverse=True)
    return distinct.tolist(), ranks[places]


def _groups(codes: npt.NDArray[np.integer]) -> list[tuple[int, Longs | None]]:
    """Return each code that occurs, in order, with its positions."""
    least, most = int(codes.min()), int(codes.max())
    if least == most:
        return [(least, None)]
    if most - least < _COUNTED_MAX:
        # numpy sorts short integers by counting.
        return _sorted_groups((codes - least).astype(np.uint16), np.arange(least, most + 1))
    present, short = np.unique(codes, return_inverse=True)
    return _sorted_groups(short, present)


def _sorted_groups(
    places: npt.NDArray[np.integer], codes: npt.NDArray[np.integer]
) -> list[tuple[int, Longs | None]]:
    counts = np.bincount(places, minlength=len(codes))
    parts = np.split(np.argsort(places, kind="stable"), np.cumsum(counts)[:-1])
    return [(code, rows) for code, rows in zip(codes.tolist(), parts, strict=True) if len(rows)]
