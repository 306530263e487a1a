"""How a schema changes: ids stay with their columns, and a dropped id is never used again."""

from collections.abc import Mapping, Sequence
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


def changed_schema(
    schema: Schema, changes: Sequence[SchemaChange], *, fixed: Mapping[str, str]
) -> Schema:
    """Apply changes in order; `fixed` says for columns that must stay what they are."""
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
    """Hold the columns of a schema while they change, so that thousands can change at once."""

    def __init__(self, schema: Schema) -> None:
        self._before = schema
        # A place stays with its column; that of a dropped one is left empty.
        self._columns: list[Column | None] = list(schema.columns)
        self._places = {column.name: place for place, column in enumerate(schema.columns)}
        self._highest_field_id = schema.highest_field_id

    def schema(self) -> Schema:
        """Return what the changes lead to."""
        columns = tuple(column for column in self._columns if column is not None)
        return replace(self._before, columns=columns, highest_field_id=self._highest_field_id)

    def add(self, change: AddColumn) -> None:
        """Add a column behind the others."""
        self._check_free(change.name)
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
            raise InvalidAlterError(f"The column '{name}' is the last one and cannot be dropped.")
        self._columns[self._places.pop(name)] = None

    def rename(self, change: RenameColumn, fixed: Mapping[str, str]) -> None:
        """Give a column another name."""
        column = self._existing(change.old)
        if change.new == change.old:
            return
        _check_loose(change.old, fixed, verb="renamed")
        self._check_free(change.new)
        place = self._places[change.new] = self._places.pop(change.old)
        self._columns[place] = replace(column, name=change.new)

    def modify(self, change: ModifyColumn) -> None:
        """Change the comment of a column; nothing else of it can change."""
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
