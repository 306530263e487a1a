"""The changes that can be asked of a table."""

from dataclasses import dataclass
from enum import IntEnum

from headwater.model.aggregate import AggregateFunction
from headwater.model.types import DataType


class ColumnPosition(IntEnum):
    """Name the places for a column, numbered as on the wire."""

    LAST = 0
    FIRST = 1
    AFTER = 3


@dataclass(frozen=True, slots=True)
class SetOption:
    """Give an option or custom property a value."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class ResetOption:
    """Take an option back to its default, or remove a custom property."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """Add a nullable column."""

    name: str
    type: DataType
    comment: str | None = None
    position: ColumnPosition = ColumnPosition.LAST
    aggregate: AggregateFunction | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Remove a column; its id is never used again."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Give a column another name; its id stays."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyColumn:
    """Change a column; what is None stays as it is."""

    name: str
    type: DataType | None = None
    comment: str | None = None
    position: ColumnPosition | None = None


SchemaChange = AddColumn | DropColumn | RenameColumn | ModifyColumn
TableChange = SetOption | ResetOption | SchemaChange
