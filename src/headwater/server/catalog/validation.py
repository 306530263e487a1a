"""Which tables are accepted, and what the server fills in."""

from collections.abc import Iterable
from dataclasses import replace

from headwater.config.auto_partition import AutoPartition, time_key
from headwater.config.choices import LogFormat, TimeUnit
from headwater.config.options import (
    AUTO_PARTITION_ENABLED,
    AUTO_PARTITION_NUM_PRECREATE,
    DELETE_BEHAVIOR,
    KV_STANDBY_REPLICA_ENABLED,
    KV_TTL,
    KV_TTL_TIME_COLUMN,
    MERGE_ENGINE,
    REPLICATION_FACTOR,
    STATISTICS_COLUMNS,
)
from headwater.config.server import ServerSettings
from headwater.config.statistics import statistics_columns
from headwater.config.table_options import TableOptions
from headwater.errors import BucketLimitError, InvalidOptionError, InvalidTableError
from headwater.model.aggregate_options import with_aggregates
from headwater.model.descriptor import TableDescriptor
from headwater.model.path import check_free_name, check_properties
from headwater.model.schema import Schema, check_schema, with_column_ids
from headwater.model.types import NESTED_TYPES, DataType, DateType, DecimalType
from headwater.server.catalog.lake_rules import check_lake, check_lake_options, with_lake_format
from headwater.server.catalog.nested_names import check_nested_names
from headwater.server.catalog.primary_key import (
    check_auto_increment,
    check_merging,
    check_primary_key,
    check_state,
    filled_properties,
    with_filled_keys,
)
from headwater.server.catalog.schema_changes import FIELD_ID_MAX

RESERVED_COLUMNS = (
    "__offset",
    "__timestamp",
    "__bucket",
    "_change_type",
    "_log_offset",
    "_commit_timestamp",
)
KEYED_OPTIONS = (
    MERGE_ENGINE.name,
    DELETE_BEHAVIOR.name,
    KV_STANDBY_REPLICA_ENABLED.name,
    KV_TTL.name,
    KV_TTL_TIME_COLUMN.name,
)
LOG_OPTIONS = (STATISTICS_COLUMNS.name,)
DATE_FORMAT = "yyyy-MM-dd"


def accepted_table(table: TableDescriptor, *, settings: ServerSettings) -> TableDescriptor:
    """Return a new table's descriptor with all that is left out filled in, or say what is wrong."""
    check_schema(table.schema)
    check_properties({**table.properties, **table.custom_properties})
    if table.is_keyed:
        table = with_filled_keys(with_aggregates(table))
    count = table.bucket_count if table.bucket_count is not None else settings.default_bucket_number
    _check_bucket_count(count, count_max=settings.bucket_count_max)
    check_lake_options(table)
    numbered = replace(table, schema=with_column_ids(table.schema), bucket_count=count)
    return checked_table(with_lake_format(numbered, settings.datalake_format))


def checked_table(table: TableDescriptor) -> TableDescriptor:
    """Return a descriptor with complete properties, or say which rule it breaks."""
    _check_columns(table.schema)
    check_auto_increment(table.schema)
    if table.is_keyed:
        check_primary_key(table)
    _check_partition_keys(table)
    _check_bucket_keys(table)
    table = _with_filled_properties(table)
    _check_options(table, TableOptions.of(table.properties))
    return table


def _with_filled_properties(table: TableDescriptor) -> TableDescriptor:
    keyed = filled_properties(table.properties) if table.is_keyed else {}
    properties = {REPLICATION_FACTOR.name: "1", **keyed, **table.properties}
    if len(table.partition_keys) > 1 and AUTO_PARTITION_ENABLED.of(properties):
        properties.setdefault(AUTO_PARTITION_NUM_PRECREATE.name, "0")
    return replace(table, properties=properties, custom_properties=dict(table.custom_properties))


def _check_columns(schema: Schema) -> None:
    check_schema(schema)
    if reserved := [name for name in schema.names if name in RESERVED_COLUMNS]:
        raise InvalidTableError(
            f"The column names {', '.join(reserved)} are reserved.",
            hint=f"All reserved ones are {', '.join(RESERVED_COLUMNS)}.",
        )
    if schema.highest_field_id >= FIELD_ID_MAX:
        raise InvalidTableError(f"Column ids must be below {FIELD_ID_MAX}.")
    for column in schema.columns:
        check_free_name("The column name", column.name)
        check_nested_names(column.name, column.type)


def _check_bucket_count(count: int, *, count_max: int) -> None:
    if count < 1:
        raise InvalidTableError(f"A table needs at least 1 bucket, not {count}.")
    if count > count_max:
        raise BucketLimitError(f"A table may have {count_max} buckets, not {count}.")


def _check_partition_keys(table: TableDescriptor) -> None:
    _check_different("Partition keys", table.partition_keys)
    for name, column in table.schema.named(table.partition_keys).items():
        if not _can_partition(column.type):
            raise InvalidTableError(
                f"The column '{name}' of type {column.type} cannot be a partition key."
            )
    if table.partition_keys and set(table.partition_keys) == set(table.schema.names):
        raise InvalidTableError("A table needs a column that is not a partition key.")


def _can_partition(data_type: DataType) -> bool:
    return not isinstance(data_type, (*NESTED_TYPES, DecimalType))


def _check_bucket_keys(table: TableDescriptor) -> None:
    _check_different("Bucket keys", table.bucket_keys)
    partition_keys = frozenset(table.partition_keys)
    for name, column in table.schema.named(table.bucket_keys).items():
        if isinstance(column.type, NESTED_TYPES):
            raise InvalidTableError(
                f"The column '{name}' of type {column.type} cannot be a bucket key."
            )
        if name in partition_keys:
            raise InvalidTableError(
                f"The column '{name}' cannot be a bucket key, because it is a partition key."
            )


def _check_different(what: str, names: Iterable[str]) -> None:
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise InvalidTableError(f"{what} are given twice: {', '.join(listed)}.")


def _check_options(table: TableDescriptor, options: TableOptions) -> None:
    if options.log_format is not LogFormat.ARROW:
        raise InvalidOptionError(
            f"The log format {options.log_format} is not served.", hint="Use arrow."
        )
    if options.replication_factor != 1:
        raise InvalidOptionError(
            f"'{REPLICATION_FACTOR.name}' cannot be {options.replication_factor}.",
            hint="There is one server, so there is one copy.",
        )
    _check_kind(table)
    check_merging(table.schema, options.kv)
    if table.is_keyed:
        check_state(table.schema, options.kv)
    check_lake(table, options.lake)
    statistics_columns(options.statistics_columns, table.schema)
    _check_auto_partition(table, options.auto_partition)


def _check_kind(table: TableDescriptor) -> None:
    """Check that no option is given that means nothing for this kind of table."""
    kind = "log" if table.is_keyed else "primary-key"
    foreign = LOG_OPTIONS if table.is_keyed else KEYED_OPTIONS
    if given := [name for name in foreign if name in table.properties]:
        raise InvalidOptionError(f"'{given[0]}' is for {kind} tables only.")


def _check_auto_partition(table: TableDescriptor, rules: AutoPartition) -> None:
    keys = table.partition_keys
    if rules.enabled and not keys:
        raise InvalidOptionError(
            "'table.auto-partition.enabled' needs a table with partition keys."
        )
    if not keys or not rules.checks_values:
        return
    if len(keys) > 1 and rules.key is None:
        raise InvalidOptionError(
            "'table.auto-partition.key' is needed for a table with several partition keys.",
            hint=f"Name one of {', '.join(keys)}.",
        )
    if rules.key is not None and rules.key not in keys:
        raise InvalidOptionError(
            f"'table.auto-partition.key' names '{rules.key}', which is no partition key.",
            hint=f"Name one of {', '.join(keys)}.",
        )
    if rules.enabled:
        _check_enabled_auto_partition(table, rules)


def _check_enabled_auto_partition(table: TableDescriptor, rules: AutoPartition) -> None:
    if len(table.partition_keys) > 1 and rules.precreate_count > 0:
        raise InvalidOptionError(
            "'table.auto-partition.num-precreate' must be 0 for several partition keys.",
            hint="The values of the other keys are not known ahead of time.",
        )
    key = time_key(rules, table.partition_keys)
    if not isinstance(table.schema.column(key).type, DateType):
        return
    # A date is always written this way, so any other value could never be read back.
    if rules.time_unit is not TimeUnit.DAY or rules.time_format.pattern != DATE_FORMAT:
        raise InvalidOptionError(
            f"Automatic partitions by '{key}' of type DATE need the time unit day "
            f"and the time format {DATE_FORMAT}."
        )
