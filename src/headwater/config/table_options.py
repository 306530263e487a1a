"""The options of one table, parsed from its properties."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Self

from headwater.config import options
from headwater.config.auto_partition import AutoPartition, custom_format, default_format
from headwater.errors import InvalidOptionError
from headwater.model import types
from headwater.model.schema import Column, Schema

EVERY_COLUMN = ("*",)
SUPPORTED_TYPES = (
    types.BooleanType,
    types.TinyIntType,
    types.SmallIntType,
    types.IntType,
    types.BigIntType,
    types.FloatType,
    types.DoubleType,
    types.StringType,
    types.CharType,
    types.DecimalType,
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.TimestampLtzType,
)


def statistics_columns(names: tuple[str, ...], schema: Schema) -> tuple[Column, ...]:
    """Resolve `table.statistics.columns` to columns, in the order given."""
    if names == EVERY_COLUMN:
        return tuple(column for column in schema.columns if _is_supported(column))
    return tuple(_named(name, schema) for name in names)


def _is_supported(column: Column) -> bool:
    return isinstance(column.type, SUPPORTED_TYPES)


def _named(name: str, schema: Schema) -> Column:
    found = next((column for column in schema.columns if column.name == name), None)
    if found is None:
        raise InvalidOptionError(
            f"'table.statistics.columns' names '{name}', which is not a column.",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    if not _is_supported(found):
        raise InvalidOptionError(
            f"'table.statistics.columns' names '{name}' of type {found.type}, which has no "
            "statistics."
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOptions:
    """How a table is tiered to a lake."""

    enabled: bool
    historical_partition_enabled: bool
    format: options.LakeFormat | None
    freshness_ms: int
    auto_compaction: bool
    auto_expire_snapshot: bool
    system_columns: bool

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parse the lake options."""
        system_columns = options.DATALAKE_SYSTEM_COLUMNS.of(properties)
        lake = options.DATALAKE_FORMAT.of(properties)
        return cls(
            enabled=options.DATALAKE_ENABLED.required(properties),
            historical_partition_enabled=options.DATALAKE_HISTORICAL_PARTITION_ENABLED.required(
                properties
            ),
            format=lake,
            freshness_ms=options.DATALAKE_FRESHNESS.required(properties),
            auto_compaction=options.DATALAKE_AUTO_COMPACTION.required(properties),
            auto_expire_snapshot=options.DATALAKE_AUTO_EXPIRE_SNAPSHOT.required(properties),
            # In Iceberg they also partition the files, which slows down other readers.
            system_columns=lake is options.LakeFormat.PAIMON
            if system_columns is None
            else system_columns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KvOptions:
    """How a primary-key table merges and keeps its rows."""

    format: options.KvFormat
    format_version: int | None
    standby_replica_enabled: bool | None
    ttl_ms: int | None
    ttl_time_column: str | None
    merge_engine: options.MergeEngine | None
    version_column: str | None
    delete_behavior: options.DeleteBehavior | None
    auto_increment_cache_size: int
    changelog_image: options.ChangelogImage
    compaction: "CompactionOptions"

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parse the options of primary-key tables."""
        return cls(
            format=options.KV_FORMAT.required(properties),
            format_version=options.KV_FORMAT_VERSION.of(properties),
            standby_replica_enabled=options.KV_STANDBY_REPLICA_ENABLED.of(properties),
            ttl_ms=options.KV_TTL.of(properties),
            ttl_time_column=options.KV_TTL_TIME_COLUMN.of(properties),
            merge_engine=options.MERGE_ENGINE.of(properties),
            version_column=options.MERGE_ENGINE_VERSION_COLUMN.of(properties),
            delete_behavior=options.DELETE_BEHAVIOR.of(properties),
            auto_increment_cache_size=options.AUTO_INCREMENT_CACHE_SIZE.required(properties),
            changelog_image=options.CHANGELOG_IMAGE.required(properties),
            compaction=CompactionOptions.of(properties),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """When the state of a bucket is compacted."""

    enabled: bool
    interval_ms: int
    dirty_ratio: float

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parse the options of a state's compaction."""
        return cls(
            enabled=options.KV_COMPACTION_ENABLED.required(properties),
            interval_ms=options.KV_COMPACTION_INTERVAL.of(properties) or 0,
            dirty_ratio=options.KV_COMPACTION_DIRTY_RATIO.required(properties),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """All options of a table, typed; a ttl of 0 keeps rows forever."""

    replication_factor: int
    log_format: options.LogFormat
    compression: options.ArrowCompression
    compression_zstd_level: int
    log_ttl_ms: int
    local_ttl_ms: int
    retention_bytes: int | None
    segment_bytes: int | None
    roll_ms: int
    delete_delay_ms: int
    tiered_local_segments: int
    statistics_columns: tuple[str, ...]
    auto_partition: AutoPartition
    lake: LakeOptions
    kv: KvOptions

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parse properties; the error names the first that is unknown, malformed or in conflict."""
        options.check_properties(properties)
        log_ttl_ms = options.LOG_TTL.required(properties)
        return cls(
            replication_factor=options.REPLICATION_FACTOR.of(properties) or 1,
            log_format=options.LOG_FORMAT.required(properties),
            compression=options.LOG_COMPRESSION.required(properties),
            compression_zstd_level=options.LOG_COMPRESSION_ZSTD_LEVEL.required(properties),
            log_ttl_ms=log_ttl_ms,
            local_ttl_ms=_local_ttl_ms(properties, log_ttl_ms),
            retention_bytes=options.LOG_RETENTION_BYTES.of(properties),
            segment_bytes=options.LOG_SEGMENT_BYTES.of(properties),
            roll_ms=options.LOG_ROLL.of(properties) or 0,
            delete_delay_ms=options.LOG_DELETE_DELAY.of(properties) or 0,
            tiered_local_segments=options.LOG_TIERED_LOCAL_SEGMENTS.required(properties),
            statistics_columns=options.STATISTICS_COLUMNS.of(properties) or (),
            auto_partition=_auto_partition(properties),
            lake=LakeOptions.of(properties),
            kv=KvOptions.of(properties),
        )


def _local_ttl_ms(properties: Mapping[str, str], log_ttl_ms: int) -> int:
    local_ttl_ms = options.LOG_LOCAL_TTL.of(properties)
    if local_ttl_ms is None:
        return log_ttl_ms
    if 0 < log_ttl_ms < local_ttl_ms:
        raise InvalidOptionError(
            f"'table.log.local-ttl' of {local_ttl_ms} ms is longer than 'table.log.ttl' of "
            f"{log_ttl_ms} ms.",
            hint="Local segments are part of the log, so they cannot outlive it.",
        )
    return local_ttl_ms


def _auto_partition(properties: Mapping[str, str]) -> AutoPartition:
    time_unit = options.AUTO_PARTITION_TIME_UNIT.required(properties)
    pattern = options.AUTO_PARTITION_TIME_FORMAT.of(properties)
    time_zone: tzinfo | None = options.AUTO_PARTITION_TIME_ZONE.of(properties)
    return AutoPartition(
        enabled=options.AUTO_PARTITION_ENABLED.required(properties),
        key=options.AUTO_PARTITION_KEY.of(properties),
        time_unit=time_unit,
        time_format=custom_format(pattern, time_unit) if pattern else default_format(time_unit),
        is_custom_format=pattern is not None,
        time_zone=time_zone,
        precreate_count=options.AUTO_PARTITION_NUM_PRECREATE.required(properties),
        retention_count=options.AUTO_PARTITION_NUM_RETENTION.required(properties),
    )
