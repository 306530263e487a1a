"""The rules of tables with a primary key, and what the server fills in for them."""

from collections.abc import Mapping
from dataclasses import replace

from headwater.config.choices import ChangelogImage, DeleteBehavior, KvFormat, MergeEngine
from headwater.config.options import (
    CHANGELOG_IMAGE,
    DELETE_BEHAVIOR,
    KV_FORMAT_VERSION,
    KV_FORMAT_VERSION_MAX,
    KV_TTL,
    KV_TTL_TIME_COLUMN,
    MERGE_ENGINE,
    MERGE_ENGINE_VERSION_COLUMN,
)
from headwater.config.table_options import KvOptions
from headwater.errors import InvalidOptionError, InvalidTableError
from headwater.model.descriptor import TableDescriptor
from headwater.model.schema import Column, Schema
from headwater.model.types import (
    NESTED_TYPES,
    BigIntType,
    DataType,
    IntType,
    TimestampLtzType,
    TimestampType,
)

VERSION_TYPES = (IntType, BigIntType, TimestampType, TimestampLtzType)
TIME_TYPES = (BigIntType, TimestampType, TimestampLtzType)
NUMBERED_TYPES = (IntType, BigIntType)


def with_filled_keys(table: TableDescriptor) -> TableDescriptor:
    """Make key columns not null, and take the primary key as bucket key if there is none."""
    key = table.schema.primary_key
    columns = tuple(
        replace(column, type=column.type.not_null()) if column.name in key else column
        for column in table.schema.columns
    )
    bucket_keys = table.bucket_keys or table.physical_primary_key
    return replace(table, schema=replace(table.schema, columns=columns), bucket_keys=bucket_keys)


def filled_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what a primary-key table has beside the properties that were given."""
    filled = {KV_FORMAT_VERSION.name: str(KV_FORMAT_VERSION_MAX)}
    if MERGE_ENGINE.of(properties) is not None:
        # Old clients take an unset behaviour for allow, so it is spelled out.
        filled[DELETE_BEHAVIOR.name] = DeleteBehavior.IGNORE
    return filled


def check_primary_key(table: TableDescriptor) -> None:
    """Check the columns of the primary key, and how partition and bucket keys fit it."""
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
    """Check that at most one column is numbered, and that it can be."""
    if not schema.auto_increment:
        return
    if not schema.primary_key:
        raise InvalidTableError("An auto-increment column needs a primary key.")
    if len(schema.auto_increment) > 1:
        raise InvalidTableError("A table can have one auto-increment column only.")
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
    """Check that the merge engine and what it relies on fit each other."""
    _check_version_column(schema, options)
    _check_delete_behavior(options)
    is_folding = options.merge_engine is MergeEngine.AGGREGATION
    if is_folding and options.changelog_image is ChangelogImage.WAL:
        raise InvalidOptionError(
            f"'{CHANGELOG_IMAGE.name}' cannot be wal under the merge engine aggregation.",
            hint="Without the row before, an update could not be undone.",
        )
    for column in schema.columns:
        if column.aggregate is not None:
            _check_aggregate(column, schema, is_folding=is_folding)


def _check_version_column(schema: Schema, options: KvOptions) -> None:
    name = options.version_column
    if options.merge_engine is not MergeEngine.VERSIONED:
        if name is not None:
            raise InvalidOptionError(
                f"'{MERGE_ENGINE_VERSION_COLUMN.name}' is for the merge engine versioned only."
            )
        return
    if name is None:
        raise InvalidOptionError(
            f"'{MERGE_ENGINE_VERSION_COLUMN.name}' is needed by the merge engine versioned."
        )
    _check_column_option(MERGE_ENGINE_VERSION_COLUMN.name, name, schema, types=VERSION_TYPES)


def _check_column_option(
    option: str, name: str, schema: Schema, *, types: tuple[type[DataType], ...]
) -> None:
    if name not in schema.names:
        raise InvalidOptionError(
            f"'{option}' names '{name}', which is no column.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    if not isinstance(kind := schema.column(name).type, types):
        accepted = ", ".join(each.__name__.removesuffix("Type").upper() for each in types)
        raise InvalidOptionError(
            f"'{option}' names '{name}' of type {kind}.", hint=f"Expected one of {accepted}."
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
    """Check how the current rows are kept, and for how long."""
    if options.format is not KvFormat.COMPACTED:
        raise InvalidOptionError(
            f"The kv format {options.format} is not served.", hint="Use compacted."
        )
    if options.ttl_ms == 0:
        raise InvalidOptionError(
            f"'{KV_TTL.name}' must be longer than 0 ms.", hint="Leave it out to keep rows."
        )
    if options.ttl_time_column is None:
        return
    if options.ttl_ms is None:
        raise InvalidOptionError(f"'{KV_TTL_TIME_COLUMN.name}' needs '{KV_TTL.name}'.")
    _check_column_option(KV_TTL_TIME_COLUMN.name, options.ttl_time_column, schema, types=TIME_TYPES)
