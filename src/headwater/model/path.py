"""Names of databases, tables and partitions, and the rules they follow."""

import re
from dataclasses import dataclass

from headwater.errors import InvalidNameError, InvalidPartitionError, InvalidTableError

NAME_LENGTH_MAX = 200
RESERVED_PREFIX = "__"
PARTITION_SEPARATOR = "$"
_NAME = re.compile(r"[A-Za-z0-9_\-]+\Z")


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
