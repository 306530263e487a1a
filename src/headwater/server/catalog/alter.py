"""Changes to a table, and how its schema and descriptor follow them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import assert_never

from headwater.config import spellings
from headwater.config.options import (
    ALTERABLE_NAMES,
    DATALAKE_FORMAT,
    KV_TTL_TIME_COLUMN,
    MERGE_ENGINE_VERSION_COLUMN,
    STATISTICS_COLUMNS,
    declared,
    is_table_option,
)
from headwater.errors import InvalidAlterError
from headwater.model.aggregate import AggregateFunction
from headwater.model.path import check_properties
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor
from headwater.model.type_json import with_nested_ids
from headwater.model.types import DataType


class ColumnPosition(IntEnum):
    """Positions of a new column, numbered as on the wire."""

    LAST = 0
    FIRST = 1
    AFTER = 3


@dataclass(frozen=True, slots=True)
class SetTableOption:
    """Set an option or custom property."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class ResetTableOption:
    """Reset an option to its default, or remove a custom property."""

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
    """Rename a column; its id stays."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyColumn:
    """Change a column; None leaves a field as it is."""

    name: str
    type: DataType | None = None
    comment: str | None = None
    position: ColumnPosition | None = None


SchemaChange = AddColumn | DropColumn | RenameColumn | ModifyColumn
TableChange = SetTableOption | ResetTableOption | SchemaChange


# Schema changes: ids stay with their columns, and a dropped id is never used again.

FIELD_ID_MAX = 2**31 - 1


def changed_schema(
    schema: Schema, changes: Sequence[SchemaChange], *, fixed: Mapping[str, str]
) -> Schema:
    """Apply changes in order; `fixed` maps columns that must not change to the reason."""
    draft = _Draft(schema)
    for change in changes:
        match change:
            case AddColumn():
                draft.add(change)
            case DropColumn(name=name):
                draft.drop(name, fixed)
            case RenameColumn():
                draft.rename(change, fixed)
            case ModifyColumn():
                draft.modify(change)
            case _:
                assert_never(change)
    return draft.schema()


class _Draft:
    """The columns of a schema while they change, fast even for thousands."""

    def __init__(self, schema: Schema) -> None:
        self._before = schema
        # A column keeps its position; that of a dropped one stays empty.
        self._columns: list[Column | None] = list(schema.columns)
        self._places = {column.name: place for place, column in enumerate(schema.columns)}
        self._highest_field_id = schema.highest_field_id

    def schema(self) -> Schema:
        """Build the schema after the changes."""
        columns = tuple(column for column in self._columns if column is not None)
        return replace(self._before, columns=columns, highest_field_id=self._highest_field_id)

    def add(self, change: AddColumn) -> None:
        """Add a column at the end."""
        self._check_free(change.name)
        if change.position is not ColumnPosition.LAST:
            raise InvalidAlterError(
                f"The column '{change.name}' cannot be added at this place.",
                hint="Columns can only be added at the end.",
            )
        if not change.type.nullable:
            raise InvalidAlterError(
                f"The column '{change.name}' must be nullable.",
                hint="Existing rows have no value for it.",
            )
        column_id = self._highest_field_id + 1
        data_type, next_id = with_nested_ids(change.type, column_id + 1)
        if next_id > FIELD_ID_MAX:
            raise InvalidAlterError("The table has used up its column ids.")
        column = Column(
            name=change.name,
            type=data_type,
            column_id=column_id,
            comment=change.comment,
            aggregate=change.aggregate,
        )
        self._places[change.name] = len(self._columns)
        self._columns.append(column)
        self._highest_field_id = next_id - 1

    def drop(self, name: str, fixed: Mapping[str, str]) -> None:
        """Remove a column."""
        self._existing(name)
        _check_loose(name, fixed, verb="dropped")
        if len(self._places) == 1:
            raise InvalidAlterError(f"The column '{name}' is the only one and cannot be dropped.")
        self._columns[self._places.pop(name)] = None

    def rename(self, change: RenameColumn, fixed: Mapping[str, str]) -> None:
        """Rename a column."""
        column = self._existing(change.old)
        if change.new == change.old:
            return
        _check_loose(change.old, fixed, verb="renamed")
        self._check_free(change.new)
        place = self._places[change.new] = self._places.pop(change.old)
        self._columns[place] = replace(column, name=change.new)

    def modify(self, change: ModifyColumn) -> None:
        """Change the comment of a column; nothing else can change."""
        column = self._existing(change.name)
        if change.position is not None:
            raise InvalidAlterError(f"The column '{change.name}' cannot be moved.")
        if change.type is not None and _bare(change.type) != _bare(column.type):
            raise InvalidAlterError(
                f"The type of column '{change.name}' cannot be changed.",
                hint="Add a column of the new type instead.",
            )
        if change.comment is not None:
            self._columns[self._places[change.name]] = replace(column, comment=change.comment)

    def _existing(self, name: str) -> Column:
        place = self._places.get(name)
        column = None if place is None else self._columns[place]
        if column is None:
            raise InvalidAlterError(
                f"There is no column '{name[:80]}'.",
                hint=f"The columns are {', '.join(self.schema().names)}.",
            )
        return column

    def _check_free(self, name: str) -> None:
        if name in self._places:
            raise InvalidAlterError(f"There is already a column '{name}'.")


def _check_loose(name: str, fixed: Mapping[str, str], *, verb: str) -> None:
    if name in fixed:
        raise InvalidAlterError(
            f"The column '{name}' cannot be {verb}, because it is {fixed[name]}."
        )


def _bare(data_type: DataType) -> DataType:
    # Clients send types without the ids that the server gave their nested fields.
    bare, _ = with_nested_ids(data_type, 0)
    return bare


# Descriptor changes.


def altered(table: TableDescriptor, changes: Sequence[TableChange]) -> TableDescriptor:
    """Apply changes in order, options before columns; reject those that are not allowed."""
    options = [each for each in changes if isinstance(each, SetTableOption | ResetTableOption)]
    columns = [each for each in changes if not isinstance(each, SetTableOption | ResetTableOption)]
    if options:
        table = _with_options(table, options)
    if columns:
        fixed = fixed_columns(table)
        table = replace(table, schema=changed_schema(table.schema, columns, fixed=fixed))
    return table


def fixed_columns(table: TableDescriptor) -> Mapping[str, str]:
    """Map columns that other parts of a table depend on to the reason."""
    statistics = STATISTICS_COLUMNS.of(table.properties) or ()
    named = {
        option.of(table.properties): f"named in '{option.name}'"
        for option in (MERGE_ENGINE_VERSION_COLUMN, KV_TTL_TIME_COLUMN)
    }
    return {
        **{name: why for name, why in named.items() if name is not None},
        **dict.fromkeys(statistics, "named in 'table.statistics.columns'"),
        **dict.fromkeys(table.schema.auto_increment, "an auto-increment column"),
        **dict.fromkeys(table.bucket_keys, "a bucket key"),
        **dict.fromkeys(table.partition_keys, "a partition key"),
        **dict.fromkeys(table.schema.primary_key, "part of the primary key"),
    }


def _with_options(
    table: TableDescriptor, changes: Sequence[SetTableOption | ResetTableOption]
) -> TableDescriptor:
    properties, custom = dict(table.properties), dict(table.custom_properties)
    check_properties({each.key: each.value for each in changes if isinstance(each, SetTableOption)})
    for change in _as_declared(changes, table):
        if not is_table_option(change.key):
            _apply(change, custom)
            continue
        if isinstance(change, SetTableOption):
            declared(change.key).read(change.value)
            if properties.get(change.key) == change.value:
                continue
        # A table without a lake format can be given one if its rows may be in any bucket.
        is_first = change.key == DATALAKE_FORMAT.name and change.key not in properties
        if isinstance(change, ResetTableOption) or not is_first:
            _check_alterable(change.key)
        _apply(change, properties)
    return replace(table, properties=properties, custom_properties=custom)


def _as_declared(
    changes: Sequence[SetTableOption | ResetTableOption], table: TableDescriptor
) -> Iterator[SetTableOption | ResetTableOption]:
    """Translate names of other systems to ours; raises for unknown ones."""
    for change in changes:
        if change.key in table.custom_properties and not spellings.is_free(change.key):
            # Kept by an earlier version, without effect.
            yield ResetTableOption(change.key)
            if isinstance(change, ResetTableOption):
                continue
        if change.key in (
            *spellings.BUCKET_COUNT_NAMES,
            *spellings.BUCKET_KEY_NAMES,
            spellings.AUTO_INCREMENT,
        ):
            _check_same_shape(change, table)
            continue
        if isinstance(change, ResetTableOption):
            yield ResetTableOption(spellings.option_name(change.key))
            continue
        key, value = spellings.as_option(change.key, change.value)
        yield ResetTableOption(key) if value is None else SetTableOption(key, value)


def _check_same_shape(change: SetTableOption | ResetTableOption, table: TableDescriptor) -> None:
    """Reject another number of buckets, bucket key or auto-increment column."""
    text = change.value if isinstance(change, SetTableOption) else ""
    held = (
        str(table.bucket_count)
        if change.key in spellings.BUCKET_COUNT_NAMES
        else ",".join(
            table.schema.auto_increment
            if change.key == spellings.AUTO_INCREMENT
            else table.bucket_keys
        )
    )
    if text.replace(" ", "") != held:
        raise InvalidAlterError(
            f"'{change.key}' cannot be changed after the table is created.",
            hint="Create a new table, and copy the rows.",
        )


def _apply(change: SetTableOption | ResetTableOption, properties: dict[str, str]) -> None:
    if isinstance(change, SetTableOption):
        properties[change.key] = change.value
    else:
        properties.pop(change.key, None)


def _check_alterable(key: str) -> None:
    if not declared(key).alterable:
        raise InvalidAlterError(
            f"The option '{key}' cannot be changed after the table is created.",
            hint=f"The options that can be changed are {', '.join(ALTERABLE_NAMES)}.",
        )
