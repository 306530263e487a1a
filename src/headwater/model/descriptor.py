"""What a user says of a table when creating it, and its JSON form."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.model.schema import Schema, names_of, schema_from_json, schema_to_json
from headwater.model.type_json import Json, int_of, list_of, object_of, texts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescriptor:
    """Describe a table: schema, partitions, buckets and options."""

    schema: Schema
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    bucket_count: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    custom_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_partitioned(self) -> bool:
        """Tell whether rows go to partitions."""
        return bool(self.partition_keys)

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return bool(self.schema.primary_key)

    @property
    def physical_primary_key(self) -> tuple[str, ...]:
        """Return the part of the primary key that tells rows of one partition apart."""
        return tuple(name for name in self.schema.primary_key if name not in self.partition_keys)


def descriptor_to_json(table: TableDescriptor) -> dict[str, Json]:
    """Write a descriptor in the JSON form of the protocol."""
    json: dict[str, Json] = {"version": 1, "schema": schema_to_json(table.schema)}
    if table.comment is not None:
        json["comment"] = table.comment
    json["partition_key"] = list(table.partition_keys)
    json["bucket_key"] = list(table.bucket_keys)  # Java wants to be told of an empty one as well
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
