"""The keys of a table's rows in bytes, and the buckets they lead to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.config.choices import LakeFormat
from headwater.config.options import DATALAKE_FORMAT
from headwater.errors import InvalidOptionError, InvalidValueError, UnsupportedError
from headwater.model.descriptor import TableDescriptor
from headwater.rows.bucketing import BucketFunction, Buckets, buckets_of
from headwater.rows.key_formats import Encoder, key_encoder

# Whose buckets rows go to where clients of Apache Fluss disagree: java, the default, or pyfluss.
BUCKET_HASH = "headwater.bucket-hash"
_NULLS_ALLOWED = (BucketFunction.PAIMON, BucketFunction.PAIMON_UNSIGNED)
# Few enough that the keys of a block stay in the processor's cache until they are hashed.
_BLOCK_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """Find buckets by the key columns of rows; made once for many batches."""

    names: tuple[str, ...]
    encoder: Encoder
    function: BucketFunction

    @classmethod
    def of(cls, descriptor: TableDescriptor) -> "BucketKeys | None":
        """Work out the bucket key of a table, None if any bucket will do."""
        names = descriptor.bucket_keys or descriptor.physical_primary_key
        if not names:
            return None
        lake = DATALAKE_FORMAT.of(descriptor.properties)
        if lake is LakeFormat.HUDI:
            raise UnsupportedError(
                "Rows of a table in Hudi's format cannot be written: their bucket is not known.",
                hint="Write them with a client of Apache Fluss.",
            )
        types = [descriptor.schema.column(name).type for name in names]
        return cls(names, key_encoder(types, lake), _function(descriptor, lake))

    def buckets(self, batch: pa.RecordBatch, count: int) -> Buckets:
        """Return the bucket of every row."""
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
            raise InvalidOptionError(f"'{BUCKET_HASH}' is java or pyfluss, not {other!r}.")


def _check_present(names: Sequence[str], columns: Sequence[pa.Array]) -> None:
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            raise InvalidValueError(
                f"The bucket key '{name}' holds {column.null_count} nulls.",
                hint="Write a value for every bucket-key column in every row.",
            )
