"""Partition specifications: which value each partition key has, and the names made of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from headwater.errors import InvalidPartitionError, NotPartitionedError
from headwater.model.path import PARTITION_SEPARATOR, check_partition_value

PartitionSpec: TypeAlias = tuple[tuple[str, str], ...]


def partition_name(values: Iterable[str]) -> str:
    """Join the values of the partition keys, in the order of the keys."""
    return PARTITION_SEPARATOR.join(values)


def partition_values(name: str) -> tuple[str, ...]:
    """Split a partition name into the values of the partition keys."""
    return tuple(name.split(PARTITION_SEPARATOR))


def name_of_spec(spec: PartitionSpec) -> str:
    """Return the name of the partition that a complete specification describes."""
    return partition_name(value for _, value in spec)


def spec_of_name(name: str, keys: Sequence[str]) -> PartitionSpec:
    """Return the specification that a partition name stands for."""
    _check_partitioned(keys)
    values = partition_values(name)
    if len(values) != len(keys):
        raise InvalidPartitionError(
            f"The partition name '{name[:80]}' has {len(values)} values.",
            hint=f"Expected one for each of {', '.join(keys)}.",
        )
    return tuple(zip(keys, values, strict=True))


def complete_spec(spec: Mapping[str, str], keys: Sequence[str]) -> PartitionSpec:
    """Order a specification by the partition keys, or say which key is missing or unknown."""
    ordered = partial_spec(spec, keys)
    if missing := [key for key in keys if key not in spec]:
        raise InvalidPartitionError(
            f"The partition has no value for {', '.join(missing)}.",
            hint=f"Give one for each of {', '.join(keys)}.",
        )
    return ordered


def partial_spec(spec: Mapping[str, str], keys: Sequence[str]) -> PartitionSpec:
    """Order a specification of some keys by the partition keys, or say which key is unknown."""
    _check_partitioned(keys)
    if unknown := sorted(key[:80] for key in spec if key not in keys):
        raise InvalidPartitionError(
            f"The table is not partitioned by {', '.join(unknown)}.",
            hint=f"Its partition keys are {', '.join(keys)}.",
        )
    return tuple((key, spec[key]) for key in keys if key in spec)


def check_spec_values(spec: PartitionSpec) -> PartitionSpec:
    """Return the specification, or say which value cannot be part of a partition name."""
    for _, value in spec:
        check_partition_value(value)
    return spec


def _check_partitioned(keys: Sequence[str]) -> None:
    if not keys:
        raise NotPartitionedError("The table is not partitioned.")
