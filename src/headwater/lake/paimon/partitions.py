"""Partitions of a lake table: as texts, as rows of manifests, and as directories."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import UnsupportedError
from headwater.lake.paimon.binary_row import from_binary_row, to_binary_row
from headwater.lake.paimon.bounds import Bounds, literals_of, merged, to_record
from headwater.lake.paimon.manifests import Entry, Record
from headwater.lake.paimon.types import file_type
from headwater.lake.spi import PartitionValues
from headwater.lake.table import LakeTableSpec
from headwater.model.arrow import arrow_type
from headwater.model.partition_values import PartitionValue, partition_texts, partition_value
from headwater.model.predicate import Literal
from headwater.model.types import DataType, TimestampLtzType, TimestampType

_MICROS_PRECISION_MAX = 6

FilePath = Callable[[tuple[PartitionValue, ...], int, str], str]


@dataclass(frozen=True, slots=True)
class Partitions:
    """Translate the partitions of one table."""

    keys: tuple[str, ...]
    types: tuple[DataType, ...]
    path_of: FilePath

    @classmethod
    def of(cls, spec: LakeTableSpec, path_of: FilePath) -> "Partitions":
        """Know the partition keys of a table."""
        types = tuple(spec.schema.column(key).type for key in spec.partition_keys)
        return cls(spec.partition_keys, types, path_of)

    def to_row(self, partition: PartitionValues) -> bytes:
        """Return a partition as manifests hold it."""
        return to_binary_row(self._file_types, self._literals(partition))

    def from_row(self, row: bytes) -> PartitionValues:
        """Return the partition of a manifest's entry."""
        literals = from_binary_row(self._file_types, row)
        return tuple(
            (key, _text(literal, data_type))
            for key, literal, data_type in zip(self.keys, literals, self.types, strict=True)
        )

    def file_path(self, partition: PartitionValues, bucket: int, name: str) -> str:
        """Return where a file of a bucket lies, as Paimon's own writers name directories."""
        return self.path_of(self._values(partition), bucket, name)

    def bounds(self, entries: Sequence[Entry]) -> Record:
        """Return the bounds of partition columns as lists of manifests hold them."""
        rows = [from_binary_row(self._file_types, each.partition) for each in entries]
        columns = [
            merged(Bounds(row[at], row[at], 0) for row in rows) for at in range(len(self.keys))
        ]
        return {**to_record(self._file_types, columns)}

    def literals(self, row: bytes) -> tuple[Literal, ...]:
        """Return the values of a partition as filters write them."""
        return from_binary_row(self._file_types, row)

    @property
    def _file_types(self) -> list[pa.DataType]:
        return [file_type(each) for each in self.types]

    def _values(self, partition: PartitionValues) -> tuple[PartitionValue, ...]:
        texts = dict(partition)
        return tuple(
            partition_value(texts[key], data_type)
            for key, data_type in zip(self.keys, self.types, strict=True)
        )

    def _literals(self, partition: PartitionValues) -> list[Literal]:
        return [
            literals_of(pa.array([value], arrow_type(data_type)).cast(file_type(data_type)))[0]
            for value, data_type in zip(self._values(partition), self.types, strict=True)
        ]


def check_partition_types(spec: LakeTableSpec) -> None:
    """Say which partition key Paimon cannot name directories by."""
    for key in spec.partition_keys:
        match spec.schema.column(key).type:
            case TimestampType(precision=precision) | TimestampLtzType(precision=precision):
                if precision > _MICROS_PRECISION_MAX:
                    raise UnsupportedError(
                        f"The partition key '{key}' of {spec.path} is finer than microseconds.",
                        hint="Partition by a DATE or a STRING, or by a TIMESTAMP(6).",
                    )
            case _:
                continue


def _text(literal: Literal, data_type: DataType) -> str:
    """Return a value of a partition as it stands in partition names."""
    whole = file_type(data_type)
    value = literal
    if isinstance(literal, int) and pa.types.is_timestamp(whole):
        value = literal // {"ms": 1_000_000, "us": 1_000, "ns": 1}[whole.unit]
    plain = pa.array([value], _storage_type(whole))
    array = plain.view(whole) if pa.types.is_temporal(whole) else plain.cast(whole)
    return partition_texts(array.cast(arrow_type(data_type)), data_type)[0]


def _storage_type(data_type: pa.DataType) -> pa.DataType:
    if not pa.types.is_temporal(data_type):
        return data_type
    return pa.int32() if data_type.bit_width == 32 else pa.int64()  # noqa: PLR2004
