"""Checks of new tables, and the defaults that the server fills in."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headwater.config.auto_partition import AutoPartition, time_key
from headwater.config.options import (
    AUTO_PARTITION_ENABLED,
    AUTO_PARTITION_KEY,
    AUTO_PARTITION_NUM_PRECREATE,
    AUTO_PARTITION_TIME_FORMAT,
    AUTO_PARTITION_TIME_UNIT,
    CHANGELOG_IMAGE,
    DELETE_BEHAVIOR,
    KV_COMPACTION_DIRTY_RATIO,
    KV_COMPACTION_ENABLED,
    KV_COMPACTION_INTERVAL,
    KV_FORMAT_VERSION,
    KV_FORMAT_VERSION_MAX,
    KV_STANDBY_REPLICA_ENABLED,
    KV_TTL,
    KV_TTL_TIME_COLUMN,
    MERGE_ENGINE,
    MERGE_ENGINE_VERSION_COLUMN,
    REPLICATION_FACTOR,
    STATISTICS_COLUMNS,
    ChangelogImage,
    DeleteBehavior,
    KvFormat,
    LogFormat,
    MergeEngine,
    TimeUnit,
)
from headwater.config.server import ServerSettings
from headwater.config.spellings import as_declared
from headwater.config.table_options import KvOptions, TableOptions, statistics_columns
from headwater.errors import BucketLimitError, InvalidOptionError, InvalidTableError
from headwater.model.path import check_free_name, check_properties
from headwater.model.schema import Column, Schema, check_schema, with_column_ids
from headwater.model.table import TableDescriptor, with_aggregates
from headwater.model.types import (
    NESTED_TYPES,
    ArrayType,
    BigIntType,
    DataType,
    DateType,
    DecimalType,
    IntType,
    MapType,
    RowType,
    TimestampLtzType,
    TimestampType,
)
from headwater.server.catalog.alter import FIELD_ID_MAX
from headwater.server.catalog.lake_rules import check_lake, check_lake_options, with_lake_format


def check_nested_names(column: str, data_type: DataType) -> None:
    """Check that the fields of each row inside a column have distinct, non-empty names."""
    match data_type:
        case ArrayType(element=element):
            check_nested_names(column, element)
        case MapType(key=key, value=value):
            check_nested_names(column, key)
            check_nested_names(column, value)
        case RowType():
            _check_fields(column, data_type)
        case _:
            return


def _check_fields(column: str, row: RowType) -> None:
    if not row.fields:
        raise InvalidTableError(f"The column '{column}' contains a row without fields.")
    names = Counter(field.name for field in row.fields)
    if "" in names:
        raise InvalidTableError(f"The column '{column}' contains a field without a name.")
    if repeated := sorted(name for name, count in names.items() if count > 1):
        raise InvalidTableError(
            f"The column '{column}' contains fields of the same name: {', '.join(repeated)}."
        )
    for field in row.fields:
        check_free_name(f"The column '{column}' contains a field whose name", field.name)
        check_nested_names(column, field.type)


# Tables with a primary key.

VERSION_TYPES = (IntType, BigIntType, TimestampType, TimestampLtzType)
TIME_TYPES = (BigIntType, TimestampType, TimestampLtzType)
NUMBERED_TYPES = (IntType, BigIntType)


def with_filled_keys(table: TableDescriptor) -> TableDescriptor:
    """Make key columns NOT NULL; by default the primary key is the bucket key."""
    key = table.schema.primary_key
    columns = tuple(
        replace(column, type=column.type.not_null()) if column.name in key else column
        for column in table.schema.columns
    )
    bucket_keys = table.bucket_keys or table.physical_primary_key
    return replace(table, schema=replace(table.schema, columns=columns), bucket_keys=bucket_keys)


def filled_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the default properties of a primary-key table."""
    filled = {KV_FORMAT_VERSION.name: str(KV_FORMAT_VERSION_MAX)}
    if MERGE_ENGINE.of(properties) is not None:
        # Old clients treat an unset behaviour as allow, so it is always set.
        filled[DELETE_BEHAVIOR.name] = DeleteBehavior.IGNORE
    return filled


def check_primary_key(table: TableDescriptor) -> None:
    """Check the columns of the primary key, and that partition and bucket keys fit it."""
    key = table.schema.primary_key
    if len(set(key)) != len(key):
        raise InvalidTableError(f"Columns of the primary key are given twice: {', '.join(key)}.")
    for column in map(table.schema.column, key):
        if isinstance(column.type, NESTED_TYPES):
            raise InvalidTableError(
                f"The column '{column.name}' of type {column.type} cannot be in a primary key."
            )
    _check_within_key("partition", table.partition_keys, key)
    _check_within_key("bucket", table.bucket_keys, key)
    if not table.physical_primary_key:
        raise InvalidTableError("The primary key needs a column that is not a partition key.")


def _check_within_key(what: str, names: tuple[str, ...], key: tuple[str, ...]) -> None:
    for name in names:
        if name not in key:
            raise InvalidTableError(
                f"The {what} key '{name}' must be part of the primary key.",
                hint=f"The primary key is {', '.join(key)}.",
            )


def check_auto_increment(schema: Schema) -> None:
    """Check that at most one column is auto-increment, and that its type is allowed."""
    if not schema.auto_increment:
        return
    if not schema.primary_key:
        raise InvalidTableError("An auto-increment column needs a primary key.")
    if len(schema.auto_increment) > 1:
        raise InvalidTableError("A table can only have one auto-increment column.")
    column = schema.column(schema.auto_increment[0])
    if column.name in schema.primary_key:
        raise InvalidTableError(
            f"The auto-increment column '{column.name}' cannot be part of the primary key."
        )
    if not isinstance(column.type, NUMBERED_TYPES):
        raise InvalidTableError(
            f"The auto-increment column '{column.name}' of type {column.type} "
            "must be INT or BIGINT."
        )


def check_merging(schema: Schema, options: KvOptions) -> None:
    """Check that the merge engine and its options fit together."""
    _check_version_column(schema, options)
    _check_delete_behavior(options)
    is_folding = options.merge_engine is MergeEngine.AGGREGATION
    if is_folding and options.changelog_image is ChangelogImage.WAL:
        raise InvalidOptionError(
            f"'{CHANGELOG_IMAGE.name}' cannot be wal under the merge engine aggregation.",
            hint="Without the row before, an update cannot be undone.",
        )
    for column in schema.columns:
        if column.aggregate is not None:
            _check_aggregate(column, schema, is_folding=is_folding)


def _check_version_column(schema: Schema, options: KvOptions) -> None:
    name = options.version_column
    if options.merge_engine is not MergeEngine.VERSIONED:
        if name is not None:
            raise InvalidOptionError(
                f"'{MERGE_ENGINE_VERSION_COLUMN.name}' is only for the merge engine versioned."
            )
        return
    if name is None:
        raise InvalidOptionError(
            f"The merge engine versioned requires '{MERGE_ENGINE_VERSION_COLUMN.name}'."
        )
    _check_column_option(MERGE_ENGINE_VERSION_COLUMN.name, name, schema, types=VERSION_TYPES)


def _check_column_option(
    option: str, name: str, schema: Schema, *, types: tuple[type[DataType], ...]
) -> None:
    if name not in schema.names:
        raise InvalidOptionError(
            f"'{option}' names '{name}', which is not a column.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    if not isinstance(kind := schema.column(name).type, types):
        accepted = ", ".join(each.__name__.removesuffix("Type").upper() for each in types)
        raise InvalidOptionError(
            f"'{option}' names '{name}' of type {kind}.", hint=f"Use a column of type {accepted}."
        )


def _check_delete_behavior(options: KvOptions) -> None:
    is_allowed = options.delete_behavior is DeleteBehavior.ALLOW
    if is_allowed and options.merge_engine in {MergeEngine.FIRST_ROW, MergeEngine.VERSIONED}:
        raise InvalidOptionError(
            f"'{DELETE_BEHAVIOR.name}' cannot be allow under the merge engine "
            f"{options.merge_engine}.",
            hint="Use ignore or disable.",
        )


def _check_aggregate(column: Column, schema: Schema, *, is_folding: bool) -> None:
    assert column.aggregate is not None
    if not is_folding:
        raise InvalidOptionError(
            f"The aggregate function of column '{column.name}' needs the merge engine aggregation."
        )
    if column.name in schema.primary_key:
        raise InvalidTableError(
            f"The column '{column.name}' of the primary key cannot have an aggregate function."
        )
    try:
        column.aggregate.check(column.type)
    except InvalidTableError as fault:
        raise InvalidTableError(f"The column '{column.name}': {fault}") from None


def check_state(schema: Schema, options: KvOptions) -> None:
    """Check how the current rows are stored, and for how long."""
    if options.format is not KvFormat.COMPACTED:
        raise InvalidOptionError(
            f"The kv format {options.format} is not supported.", hint="Use compacted."
        )
    if options.ttl_ms == 0:
        raise InvalidOptionError(
            f"'{KV_TTL.name}' must be longer than 0 ms.", hint="Leave it unset to keep rows."
        )
    if options.ttl_time_column is None:
        return
    if options.ttl_ms is None:
        raise InvalidOptionError(f"'{KV_TTL_TIME_COLUMN.name}' needs '{KV_TTL.name}'.")
    _check_column_option(KV_TTL_TIME_COLUMN.name, options.ttl_time_column, schema, types=TIME_TYPES)


# All tables.

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
    KV_COMPACTION_ENABLED.name,
    KV_COMPACTION_INTERVAL.name,
    KV_COMPACTION_DIRTY_RATIO.name,
)
LOG_OPTIONS = (STATISTICS_COLUMNS.name,)
DATE_FORMAT = "yyyy-MM-dd"


def accepted_table(table: TableDescriptor, *, settings: ServerSettings) -> TableDescriptor:
    """Check a new table, and fill in the defaults of its descriptor."""
    check_schema(table.schema)
    check_properties({**table.properties, **table.custom_properties})
    table = as_declared(table)
    if table.is_keyed:
        table = with_filled_keys(with_aggregates(table))
    count = table.bucket_count if table.bucket_count is not None else settings.default_bucket_number
    _check_bucket_count(count, count_max=settings.bucket_count_max)
    check_lake_options(table)
    numbered = replace(table, schema=with_column_ids(table.schema), bucket_count=count)
    return checked_table(with_lake_format(numbered, settings.datalake_format))


def checked_table(table: TableDescriptor) -> TableDescriptor:
    """Check a descriptor, and complete its properties."""
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
    if _is_by_date(table, properties):
        properties.setdefault(AUTO_PARTITION_TIME_FORMAT.name, DATE_FORMAT)
    return replace(table, properties=properties, custom_properties=dict(table.custom_properties))


def _is_by_date(table: TableDescriptor, properties: Mapping[str, str]) -> bool:
    """Tell whether automatic partitions are days of a DATE, whose values have one format."""
    if not table.partition_keys or not AUTO_PARTITION_ENABLED.of(properties):
        return False
    if AUTO_PARTITION_TIME_UNIT.required(properties) is not TimeUnit.DAY:
        return False
    key = AUTO_PARTITION_KEY.of(properties) or table.partition_keys[0]
    column = next((each for each in table.schema.columns if each.name == key), None)
    return column is not None and isinstance(column.type, DateType)


def _check_columns(schema: Schema) -> None:
    check_schema(schema)
    if reserved := [name for name in schema.names if name in RESERVED_COLUMNS]:
        raise InvalidTableError(
            f"The column names {', '.join(reserved)} are reserved.",
            hint=f"The reserved names are {', '.join(RESERVED_COLUMNS)}.",
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
        raise BucketLimitError(f"A table can have at most {count_max} buckets, not {count}.")


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
            f"The log format {options.log_format} is not supported.", hint="Use arrow."
        )
    if options.replication_factor != 1:
        raise InvalidOptionError(
            f"'{REPLICATION_FACTOR.name}' cannot be {options.replication_factor}.",
            hint="There is one server, so there is one replica. For several, run the same clients "
            "on a cluster of Apache Fluss.",
        )
    _check_kind(table)
    check_merging(table.schema, options.kv)
    if table.is_keyed:
        check_state(table.schema, options.kv)
    check_lake(table, options.lake)
    statistics_columns(options.statistics_columns, table.schema)
    _check_auto_partition(table, options.auto_partition)


def _check_kind(table: TableDescriptor) -> None:
    """Reject options that have no effect for this kind of table."""
    kind = "log" if table.is_keyed else "primary-key"
    foreign = LOG_OPTIONS if table.is_keyed else KEYED_OPTIONS
    if given := [name for name in foreign if name in table.properties]:
        raise InvalidOptionError(f"'{given[0]}' is only for {kind} tables.")


def _check_auto_partition(table: TableDescriptor, rules: AutoPartition) -> None:
    keys = table.partition_keys
    if rules.enabled and not keys:
        raise InvalidOptionError("'table.auto-partition.enabled' requires partition keys.")
    if not keys or not rules.checks_values:
        return
    if len(keys) > 1 and rules.key is None:
        raise InvalidOptionError(
            "A table with several partition keys requires 'table.auto-partition.key'.",
            hint=f"Use one of {', '.join(keys)}.",
        )
    if rules.key is not None and rules.key not in keys:
        raise InvalidOptionError(
            f"'table.auto-partition.key' names '{rules.key}', which is not a partition key.",
            hint=f"Use one of {', '.join(keys)}.",
        )
    if rules.enabled:
        _check_enabled_auto_partition(table, rules)


def _check_enabled_auto_partition(table: TableDescriptor, rules: AutoPartition) -> None:
    if len(table.partition_keys) > 1 and rules.precreate_count > 0:
        raise InvalidOptionError(
            "'table.auto-partition.num-precreate' must be 0 if there are several partition keys.",
            hint="The values of the other keys are not known in advance.",
        )
    key = time_key(rules, table.partition_keys)
    if not isinstance(table.schema.column(key).type, DateType):
        return
    # A date is always written this way, so any other value could never be parsed.
    if rules.time_unit is not TimeUnit.DAY or rules.time_format.pattern != DATE_FORMAT:
        raise InvalidOptionError(
            f"Automatic partitions by '{key}' of type DATE require the time unit day and the "
            f"time format {DATE_FORMAT}."
        )
