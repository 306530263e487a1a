"""Names of databases, tables and partitions, and the rules they follow."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headwater import errors

NAME_LENGTH_MAX = 200
RESERVED_PREFIX = "__"
PARTITION_SEPARATOR = "$"
_NAME = re.compile(r"[A-Za-z0-9_\-]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, order=True)
class TablePath:
    """A table name within its database."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def check_database_name(name: str) -> str:
    """Check that a name is allowed for a database, and return it."""
    if reason := name_fault(name):
        raise errors.InvalidNameError(f"Database name {_shown(name)} {reason}.")
    return name


def check_table_path(path: TablePath) -> TablePath:
    """Check that the names in a path are allowed, and return it."""
    check_database_name(path.database)
    if reason := name_fault(path.table):
        raise errors.InvalidTableError(f"Table name {_shown(path.table)} {reason}.")
    return path


def check_partition_value(value: str) -> str:
    """Check that a value can be part of a partition name, and return it."""
    if reason := name_fault(value):
        raise errors.InvalidPartitionError(f"Partition value {_shown(value)} {reason}.")
    return value


def check_free_name(what: str, name: str) -> None:
    """Reject control characters in names that may contain anything else, such as column names."""
    if found := _CONTROL.search(name):
        raise errors.InvalidTableError(
            f"{what} {_shown(name)} contains a control character, {found[0]!r}."
        )


def check_properties(properties: Mapping[str, str]) -> None:
    """Reject control characters in names and values of options, except tabs and line breaks."""
    for key, value in properties.items():
        check_free_name("The option", key)
        if found := _CONTROL_IN_TEXT.search(value):
            raise errors.InvalidTableError(
                f"The value of the option '{key}' contains a control character, {found[0]!r}."
            )


def name_fault(name: str) -> str:
    """Say what is wrong with a name; an empty text if nothing is."""
    if not name:
        return "is empty"
    if len(name) > NAME_LENGTH_MAX:
        return f"is longer than {NAME_LENGTH_MAX} characters"
    if not _NAME.match(name):
        return "may only contain ASCII letters, digits, '_' and '-'"
    if name.startswith(RESERVED_PREFIX):
        return f"starts with '{RESERVED_PREFIX}', which is reserved"
    return ""


def _shown(name: str) -> str:
    return repr(name if len(name) <= NAME_LENGTH_MAX else f"{name[:40]}…")


# Partition specs: the value of each partition key, and the names made of them.

PartitionSpec: TypeAlias = tuple[tuple[str, str], ...]


def partition_name(values: Iterable[str]) -> str:
    """Join the values of the partition keys, in the order of the keys."""
    return PARTITION_SEPARATOR.join(values)


def partition_values(name: str) -> tuple[str, ...]:
    """Split a partition name into the values of the partition keys."""
    return tuple(name.split(PARTITION_SEPARATOR))


def name_of_spec(spec: PartitionSpec) -> str:
    """Build the partition name from a complete spec."""
    return partition_name(value for _, value in spec)


def spec_of_name(name: str, keys: Sequence[str]) -> PartitionSpec:
    """Split a partition name into a spec."""
    _check_partitioned(keys)
    values = partition_values(name)
    if len(values) != len(keys):
        raise errors.InvalidPartitionError(
            f"The partition name '{name[:80]}' has {len(values)} values.",
            hint=f"Give one value for each of {', '.join(keys)}.",
        )
    return tuple(zip(keys, values, strict=True))


def complete_spec(spec: Mapping[str, str], keys: Sequence[str]) -> PartitionSpec:
    """Sort a spec by the partition keys; reject missing and unknown keys."""
    ordered = partial_spec(spec, keys)
    if missing := [key for key in keys if key not in spec]:
        raise errors.InvalidPartitionError(
            f"The partition has no value for {', '.join(missing)}.",
            hint=f"Give one for each of {', '.join(keys)}.",
        )
    return ordered


def partial_spec(spec: Mapping[str, str], keys: Sequence[str]) -> PartitionSpec:
    """Sort a spec of some of the partition keys; reject unknown keys."""
    _check_partitioned(keys)
    if unknown := sorted(key[:80] for key in spec if key not in keys):
        raise errors.InvalidPartitionError(
            f"The table is not partitioned by {', '.join(unknown)}.",
            hint=f"Its partition keys are {', '.join(keys)}.",
        )
    return tuple((key, spec[key]) for key in keys if key in spec)


def check_spec_values(spec: PartitionSpec) -> PartitionSpec:
    """Check that every value can be part of a partition name, and return the spec."""
    for _, value in spec:
        check_partition_value(value)
    return spec


def _check_partitioned(keys: Sequence[str]) -> None:
    if not keys:
        raise errors.NotPartitionedError("The table is not partitioned.")
