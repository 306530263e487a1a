"""How a table's descriptor changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from headwater.model.descriptor import TableDescriptor
from headwater.server.catalog.changes import ResetOption, SetOption, TableChange
from headwater.server.catalog.schema_changes import changed_schema


def altered(table: TableDescriptor, changes: Sequence[TableChange]) -> TableDescriptor:
    """Apply changes in order, or say which one is not allowed."""
    for change in changes:
        match change:
            case SetOption(key=key, value=value):
                table = _with_option(table, key, value)
            case ResetOption(key=key):
                table = _without_option(table, key)
            case _:
                fixed = fixed_columns(table)
                table = replace(table, schema=changed_schema(table.schema, change, fixed=fixed))
    return table


def fixed_columns(table: TableDescriptor) -> Mapping[str, str]:
    """Return the columns that other parts of a table rely on, and as what."""
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


def _with_option(table: TableDescriptor, key: str, value: str) -> TableDescriptor:
    if not is_table_option(key):
        return replace(table, custom_properties={**table.custom_properties, key: value})
    declared(key).read(value)
    if table.properties.get(key) == value:
        return table
    # A table that has no lake format yet can be given one, where its rows may lie in any bucket.
    if key != DATALAKE_FORMAT.name or key in table.properties:
        _check_alterable(key)
    return replace(table, properties={**table.properties, key: value})


def _without_option(table: TableDescriptor, key: str) -> TableDescriptor:
    if not is_table_option(key):
        return replace(table, custom_properties=_without(table.custom_properties, key))
    declared(key)
    _check_alterable(key)
    return replace(table, properties=_without(table.properties, key))


def _without(properties: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name != key}


def _check_alterable(key: str) -> None:
    if not declared(key).alterable:
        raise InvalidAlterError(
            f"The option '{key}' cannot be changed after the table is made.",
            hint=f"These can: {', '.join(ALTERABLE_NAMES)}.",
        )
