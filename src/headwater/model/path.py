"""Names of databases, tables and partitions, and the rules they follow."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import InvalidNameError, InvalidPartitionError, InvalidTableError

NAME_LENGTH_MAX = 200
RESERVED_PREFIX = "__"
PARTITION_SEPARATOR = "$"
_NAME = re.compile(r"[A-Za-z0-9_\-]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, order=True)
class TablePath:
    """Name a table inside its database."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def check_database_name(name: str) -> str:
    """Return the name, or say why it cannot name a database."""
    if reason := _fault(name):
        raise InvalidNameError(f"Database name {_shown(name)} {reason}.")
    return name


def check_table_path(path: TablePath) -> TablePath:
    """Return the path, or say why it cannot name a table."""
    check_database_name(path.database)
    if reason := _fault(path.table):
        raise InvalidTableError(f"Table name {_shown(path.table)} {reason}.")
    return path


def check_partition_value(value: str) -> str:
    """Return the value, or say why it cannot be part of a partition name."""
    if reason := _fault(value):
        raise InvalidPartitionError(f"Partition value {_shown(value)} {reason}.")
    return value


def check_free_name(what: str, name: str) -> None:
    """Refuse control characters in a name that may otherwise hold anything, such as a column's."""
    if found := _CONTROL.search(name):
        raise InvalidTableError(
            f"{what} {_shown(name)} contains a control character, {found[0]!r}."
        )


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse control characters in names and values of options, but for tabs and ends of lines."""
    for key, value in properties.items():
        check_free_name("The option", key)
        if found := _CONTROL_IN_TEXT.search(value):
            raise InvalidTableError(
                f"The value of the option '{key}' contains a control character, {found[0]!r}."
            )


def _fault(name: str) -> str:
    if not name:
        return "is empty"
    if len(name) > NAME_LENGTH_MAX:
        return f"is longer than {NAME_LENGTH_MAX} characters"
    if not _NAME.match(name):
        return "may hold ASCII letters, digits, '_' and '-' only"
    if name.startswith(RESERVED_PREFIX):
        return f"starts with '{RESERVED_PREFIX}', which is reserved"
    return ""


def _shown(name: str) -> str:
    return repr(name if len(name) <= NAME_LENGTH_MAX else f"{name[:40]}…")
