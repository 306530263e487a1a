"""Aggregate functions given as properties, for clients that cannot put them into a schema.

The names are those of Fluss for Flink: `fields.<column>.agg` holds the function, and
`fields.<column>.<function>.<parameter>` its parameters.
"""

from collections.abc import Mapping
from dataclasses import replace

from headwater.model.aggregate import AggregateFunction
from headwater.model.aggregate_json import aggregate_of
from headwater.model.descriptor import TableDescriptor

AGGREGATE_PREFIX = "fields."
_SUFFIX = ".agg"


def with_aggregates(table: TableDescriptor) -> TableDescriptor:
    """Give columns the functions that custom properties name, unless the schema has one."""
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
