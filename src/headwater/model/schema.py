"""A table's schema: columns with ids that survive renames, and their JSON form."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from headwater.errors import InvalidTableError
from headwater.model import type_json, types
from headwater.model.aggregate import AggregateFunction, aggregate_from_json, aggregate_to_json

COLUMN_COUNT_MAX = 4096
UNASSIGNED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; its id stays the same when it is renamed."""

    name: str
    type: types.DataType
    column_id: int = UNASSIGNED
    comment: str | None = None
    aggregate: AggregateFunction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a table in one schema version."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    auto_increment: tuple[str, ...] = ()
    highest_field_id: int = UNASSIGNED

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)

    def index_of(self, name: str) -> int:
        """Find the position of a column; -1 if there is none."""
        return self.names.index(name) if name in self.names else -1

    def column(self, name: str) -> Column:
        """Return a column by name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidTableError(
            f"There is no column '{name}'.", hint=f"The columns are {', '.join(self.names)}."
        )

    def named(self, names: Iterable[str]) -> dict[str, Column]:
        """Return columns by name, fast even for thousands."""
        by_name = {column.name: column for column in self.columns}
        return {name: by_name.get(name) or self.column(name) for name in names}


def with_column_ids(schema: Schema) -> Schema:
    """Give every column and nested field an id; a complete and unique numbering is kept."""
    if _has_complete_ids(schema):
        highest = max([schema.highest_field_id, *_all_ids(schema)])
        return replace(schema, highest_field_id=highest)
    next_id, columns = 0, []
    for column in schema.columns:
        column_id, next_id = next_id, next_id + 1
        data_type, next_id = type_json.with_nested_ids(column.type, next_id)
        columns.append(replace(column, column_id=column_id, type=data_type))
    return replace(schema, columns=tuple(columns), highest_field_id=next_id - 1)


def _has_complete_ids(schema: Schema) -> bool:
    ids = list(_all_ids(schema))
    return min(ids, default=0) >= 0 and len(ids) == len(set(ids))


def _all_ids(schema: Schema) -> Iterator[int]:
    for column in schema.columns:
        yield column.column_id
        yield from _nested_ids(column.type)


def _nested_ids(data_type: types.DataType) -> Iterator[int]:
    match data_type:
        case types.ArrayType(element=element):
            yield from _nested_ids(element)
        case types.MapType(key=key, value=value):
            yield from _nested_ids(key)
            yield from _nested_ids(value)
        case types.RowType(fields=fields):
            for field in fields:
                yield field.field_id
                yield from _nested_ids(field.type)
        case _:
            return


def schema_to_json(schema: Schema) -> dict[str, type_json.Json]:
    """Write a schema in the JSON form of the protocol."""
    json: dict[str, type_json.Json] = {
        "version": 1,
        "columns": [_column_to_json(column) for column in schema.columns],
    }
    if schema.primary_key:
        json["primary_key"] = list(schema.primary_key)
    if schema.auto_increment:
        json["auto_increment_column"] = list(schema.auto_increment)
    json["highest_field_id"] = schema.highest_field_id
    return json


def _column_to_json(column: Column) -> type_json.Json:
    json: dict[str, type_json.Json] = {
        "name": column.name,
        "data_type": type_json.type_to_json(column.type),
    }
    if column.comment is not None:
        json["comment"] = column.comment
    if column.aggregate is not None:
        json["agg_function"] = aggregate_to_json(column.aggregate)
    json["id"] = column.column_id
    return json


def schema_from_json(json: type_json.Json) -> Schema:
    """Read a schema from the JSON form of the protocol and check it."""
    node = type_json.object_of(json, what="schema")
    schema = Schema(
        columns=tuple(_column_from_json(column) for column in type_json.list_of(node, "columns")),
        primary_key=names_of(type_json.list_of(node, "primary_key")),
        auto_increment=names_of(type_json.list_of(node, "auto_increment_column")),
        highest_field_id=type_json.int_of(node, "highest_field_id", default=UNASSIGNED),
    )
    return check_schema(schema)


def _column_from_json(json: type_json.Json) -> Column:
    node = type_json.object_of(json, what="column")
    comment = node.get("comment")
    return Column(
        name=type_json.text_of(node, "name"),
        type=type_json.type_from_json(node.get("data_type")),
        column_id=type_json.int_of(node, "id", default=UNASSIGNED),
        comment=comment if isinstance(comment, str) else None,
        aggregate=aggregate_from_json(node.get("agg_function")),
    )


def names_of(json: list[type_json.Json]) -> tuple[str, ...]:
    """Check that JSON is a list of names, and return it."""
    if not all(isinstance(name, str) for name in json):
        raise InvalidTableError("Expected a list of column names.")
    return tuple(str(name) for name in json)


def check_schema(schema: Schema) -> Schema:
    """Check that a schema does not contradict itself, and return it."""
    names = schema.names
    if not names:
        raise InvalidTableError("A table needs at least one column.")
    if len(names) > COLUMN_COUNT_MAX:
        raise InvalidTableError(
            f"A table has at most {COLUMN_COUNT_MAX} columns, not {len(names)}."
        )
    if "" in names:
        raise InvalidTableError("A column name is empty.")
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise InvalidTableError(f"Column names are used twice: {', '.join(repeated)}.")
    schema.named((*schema.primary_key, *schema.auto_increment))
    return schema
