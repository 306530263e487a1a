"""How a schema changes: ids stay with their columns, and a dropped id is never used again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from headwater.errors import InvalidAlterError
from headwater.model.schema import Column, Schema
from headwater.model.type_json import with_nested_ids
from headwater.model.types import DataType
from headwater.server.catalog.changes import (
    AddColumn,
    ColumnPosition,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    SchemaChange,
)

FIELD_ID_MAX = 2**31 - 1


def changed_schema(schema: Schema, change: SchemaChange, *, fixed: Mapping[str, str]) -> Schema:
    """Apply one change; `fixed` says for columns that must stay what they are."""
    match change:
        case AddColumn():
            return _added(schema, change)
        case DropColumn(name=name):
            return _dropped(schema, name, fixed)
        case RenameColumn():
            return _renamed(schema, change, fixed)
        case ModifyColumn():
            return _modified(schema, change)
        case _:
            assert_never(change)


def _added(schema: Schema, change: AddColumn) -> Schema:
    _check_free(schema, change.name)
    if change.position is not ColumnPosition.LAST:
        raise InvalidAlterError(
            f"The column '{change.name}' cannot be added at this place.",
            hint="Columns can be added as the last one only.",
        )
    if not change.type.nullable:
        raise InvalidAlterError(
            f"The column '{change.name}' must be nullable.",
            hint="Rows that are there already have no value for it.",
        )
    column_id = schema.highest_field_id + 1
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
    return replace(schema, columns=(*schema.columns, column), highest_field_id=next_id - 1)


def _dropped(schema: Schema, name: str, fixed: Mapping[str, str]) -> Schema:
    _existing(schema, name)
    _check_loose(name, fixed, verb="dropped")
    columns = tuple(column for column in schema.columns if column.name != name)
    if not columns:
        raise InvalidAlterError(f"The column '{name}' is the last one and cannot be dropped.")
    return replace(schema, columns=columns)


def _renamed(schema: Schema, change: RenameColumn, fixed: Mapping[str, str]) -> Schema:
    column = _existing(schema, change.old)
    if change.new == change.old:
        return schema
    _check_loose(change.old, fixed, verb="renamed")
    _check_free(schema, change.new)
    return _with(schema, column, replace(column, name=change.new))


def _modified(schema: Schema, change: ModifyColumn) -> Schema:
    column = _existing(schema, change.name)
    if change.position is not None:
        raise InvalidAlterError(f"The column '{change.name}' cannot be moved.")
    if change.type is not None and _bare(change.type) != _bare(column.type):
        raise InvalidAlterError(
            f"The type of column '{change.name}' cannot be changed.",
            hint="Add a column of the new type instead.",
        )
    if change.comment is None:
        return schema
    return _with(schema, column, replace(column, comment=change.comment))


def _with(schema: Schema, old: Column, new: Column) -> Schema:
    columns = tuple(new if column is old else column for column in schema.columns)
    return replace(schema, columns=columns)


def _existing(schema: Schema, name: str) -> Column:
    for column in schema.columns:
        if column.name == name:
            return column
    raise InvalidAlterError(
        f"There is no column '{name[:80]}'.", hint=f"The columns are {', '.join(schema.names)}."
    )


def _check_free(schema: Schema, name: str) -> None:
    if name in schema.names:
        raise InvalidAlterError(f"There is a column '{name}' already.")


def _check_loose(name: str, fixed: Mapping[str, str], *, verb: str) -> None:
    if name in fixed:
        raise InvalidAlterError(
            f"The column '{name}' cannot be {verb}, because it is {fixed[name]}."
        )


def _bare(data_type: DataType) -> DataType:
    # Clients send types without the ids that the server gave their nested fields.
    bare, _ = with_nested_ids(data_type, 0)
    return bare
