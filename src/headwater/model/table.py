"""A table: what a user says when creating it, and the ids that a server gives it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headwater.model.aggregate import AggregateFunction, aggregate_of
from headwater.model.path import TablePath
from headwater.model.schema import Schema, names_of, schema_from_json, schema_to_json
from headwater.model.type_json import Json, int_of, list_of, object_of, texts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescriptor:
    """The definition of a table: schema, partition keys, buckets and options."""

    schema: Schema
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    bucket_count: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    custom_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_partitioned(self) -> bool:
        """Tell whether the table has partitions."""
        return bool(self.partition_keys)

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return bool(self.schema.primary_key)

    @property
    def physical_primary_key(self) -> tuple[str, ...]:
        """The part of the primary key that is unique within a partition."""
        return tuple(name for name in self.schema.primary_key if name not in self.partition_keys)


def descriptor_to_json(table: TableDescriptor) -> dict[str, Json]:
    """Write a descriptor in the JSON form of the protocol."""
    json: dict[str, Json] = {"version": 1, "schema": schema_to_json(table.schema)}
    if table.comment is not None:
        json["comment"] = table.comment
    json["partition_key"] = list(table.partition_keys)
    json["bucket_key"] = list(table.bucket_keys)  # Java requires it even if it is empty
    if table.bucket_count is not None:
        json["bucket_count"] = table.bucket_count
    json["properties"] = dict(table.properties)
    json["custom_properties"] = dict(table.custom_properties)
    return json


def descriptor_from_json(json: Json) -> TableDescriptor:
    """Read a descriptor from the JSON form of the protocol."""
    node = object_of(json, what="table")
    comment = node.get("comment")
    return TableDescriptor(
        schema=schema_from_json(node.get("schema")),
        comment=comment if isinstance(comment, str) else None,
        partition_keys=names_of(list_of(node, "partition_key")),
        bucket_keys=names_of(list_of(node, "bucket_key")),
        bucket_count=int_of(node, "bucket_count") if node.get("bucket_count") is not None else None,
        properties=texts_of(node.get("properties"), what="properties"),
        custom_properties=texts_of(node.get("custom_properties"), what="custom_properties"),
    )


# Aggregate functions given as properties, for clients that cannot put them into a schema. The names
# are those of Fluss for Flink: `fields.<column>.agg` is the function, and
# `fields.<column>.<function>.<parameter>` its parameters.

AGGREGATE_PREFIX = "fields."
_SUFFIX = ".agg"


def with_aggregates(table: TableDescriptor) -> TableDescriptor:
    """Move aggregate functions from custom properties to columns whose schema has none."""
    given = {
        key.removeprefix(AGGREGATE_PREFIX).removesuffix(_SUFFIX): _function(
            key, table.custom_properties
        )
        for key in table.custom_properties
        if key.startswith(AGGREGATE_PREFIX) and key.endswith(_SUFFIX)
    }
    for name in given:
        table.schema.column(name)
    columns = tuple(
        replace(column, aggregate=column.aggregate or given.get(column.name))
        for column in table.schema.columns
    )
    return replace(table, schema=replace(table.schema, columns=columns))


def _function(key: str, properties: Mapping[str, str]) -> AggregateFunction:
    name = properties[key].strip().lower()
    prefix = f"{key.removesuffix(_SUFFIX)}.{name}."
    parameters = {
        other.removeprefix(prefix): value
        for other, value in properties.items()
        if other.startswith(prefix)
    }
    return aggregate_of(name, parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """What a server knows of a table under its newest schema."""

    path: TablePath
    table_id: int
    schema_id: int
    descriptor: TableDescriptor
    created_ms: int
    modified_ms: int

    @property
    def schema(self) -> Schema:
        """The newest schema."""
        return self.descriptor.schema

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return self.descriptor.is_keyed

    @property
    def is_partitioned(self) -> bool:
        """Tell whether the table has partitions."""
        return self.descriptor.is_partitioned

    @property
    def bucket_count(self) -> int:
        """The number of buckets of the table, or of each partition."""
        return self.descriptor.bucket_count or 1
