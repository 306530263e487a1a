"""The schema of a lake table as its schema file tells it, and which column is which field."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import CorruptFileError, InvalidTableError
from headwater.model.schema import Column
from headwater.model.type_json import Json, int_of, list_of, object_of, text_of

COLUMN_IDS_OPTION = "headwater.column-ids"
"""Says which column of the table became which field: JSON, field ids by column ids."""


@dataclass(frozen=True, slots=True)
class LakeField:
    """Describe one field of a lake table; the id stays when the name changes."""

    field_id: int
    name: str
    type: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSchema:
    """Describe a lake table under one version of its schema."""

    schema_id: int
    fields: tuple[LakeField, ...]
    partition_keys: tuple[str, ...]
    primary_key: tuple[str, ...]
    options: Mapping[str, str]
    highest_field_id: int
    """The last id that was given to a field, of this schema or of an earlier one."""

    @property
    def column_ids(self) -> Mapping[int, int] | None:
        """Return field ids by column ids; None for a table that others made.

        A column that was dropped keeps its field id with the bits turned over, a negative number,
        so that nobody adds it again and older snapshots still find its values.
        """
        text = self.options.get(COLUMN_IDS_OPTION)
        if text is None:
            return None
        try:
            return {int(column): int(field) for column, field in json.loads(text).items()}
        except (ValueError, AttributeError, TypeError) as fault:
            raise CorruptFileError(
                f"The option '{COLUMN_IDS_OPTION}' of a lake table cannot be read: {text}."
            ) from fault

    def field_of(self, column: Column) -> LakeField | None:
        """Return the field that holds a column of the table; None if it has none."""
        field_id = self.field_id_of(column)
        return None if field_id is None else self.field(field_id)

    def field_id_of(self, column: Column) -> int | None:
        """Return the id of the field that holds a column, or held it until it was dropped."""
        ids = self.column_ids
        if ids is not None:
            found = ids.get(column.column_id)
            return ~found if found is not None and found < 0 else found
        return next((each.field_id for each in self.fields if each.name == column.name), None)

    def field(self, field_id: int) -> LakeField | None:
        """Return a field by its id; None if there is none under this schema."""
        return next((each for each in self.fields if each.field_id == field_id), None)

    @property
    def row_keys(self) -> tuple[str, ...]:
        """Return the part of the primary key that tells rows of one partition apart."""
        return tuple(name for name in self.primary_key if name not in self.partition_keys)


def schema_from_json(text: str | bytes) -> LakeSchema:
    """Read a schema file, or say that it cannot be read."""
    try:
        node = object_of(json.loads(text), what="schema")
        options = node.get("options") or {}
        return LakeSchema(
            schema_id=int_of(node, "id"),
            fields=tuple(_field(each) for each in list_of(node, "fields")),
            partition_keys=tuple(map(str, list_of(node, "partitionKeys"))),
            primary_key=tuple(map(str, list_of(node, "primaryKeys"))),
            highest_field_id=int_of(node, "highestFieldId"),
            options={key: str(value) for key, value in object_of(options, what="options").items()},
        )
    except (ValueError, InvalidTableError) as fault:
        raise CorruptFileError(f"A schema of a lake table cannot be read: {fault}.") from fault


def _field(node: Json) -> LakeField:
    members = object_of(node, what="field")
    return LakeField(int_of(members, "id"), text_of(members, "name"), members.get("type"))
