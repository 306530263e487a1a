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
from headwater.model.path import check_properties
from headwater.server.catalog.changes import ResetOption, SetOption, TableChange
from headwater.server.catalog.schema_changes import changed_schema


def altered(table: TableDescriptor, changes: Sequence[TableChange]) -> TableDescriptor:
    """Apply changes in order, or say which one is not allowed; options come before columns."""
    options = [each for each in changes if isinstance(each, SetOption | ResetOption)]
    columns = [each for each in changes if not isinstance(each, SetOption | ResetOption)]
    if options:
        table = _with_options(table, options)
    if columns:
        fixed = fixed_columns(table)
        table = replace(table, schema=changed_schema(table.schema, columns, fixed=fixed))
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


def _with_options(
    table: TableDescriptor, changes: Sequence[SetOption | ResetOption]
) -> TableDescriptor:
    properties, custom = dict(table.properties), dict(table.custom_properties)
    check_properties({each.key: each.value for each in changes if isinstance(each, SetOption)})
    for change in changes:
        if not is_table_option(change.key):
            _apply(change, custom)
            continue
        if isinstance(change, SetOption):
            declared(change.key).read(change.value)
            if properties.get(change.key) == change.value:
                continue
        # A table without a lake format can be given one, where its rows may lie in any bucket.
        is_first = change.key == DATALAKE_FORMAT.name and change.key not in properties
        if isinstance(change, ResetOption) or not is_first:
            _check_alterable(change.key)
        _apply(change, properties)
    return replace(table, properties=properties, custom_properties=custom)


def _apply(change: SetOption | ResetOption, properties: dict[str, str]) -> None:
    if isinstance(change, SetOption):
        properties[change.key] = change.value
    else:
        properties.pop(change.key, None)


def _check_alterable(key: str) -> None:
    if not declared(key).alterable:
        raise InvalidAlterError(
            f"The option '{key}' cannot be changed after the table is made.",
            hint=f"These can: {', '.join(ALTERABLE_NAMES)}.",
        )
