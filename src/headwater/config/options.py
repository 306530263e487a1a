"""Every option of a table."""

from collections.abc import Mapping
from difflib import get_close_matches

from headwater.config.choices import (
    ArrowCompression,
    ChangelogImage,
    DeleteBehavior,
    KvFormat,
    LakeFormat,
    LogFormat,
    MergeEngine,
    TimeUnit,
)
from headwater.config.option import Option, shown
from headwater.config.values import (
    BOOLEAN,
    DURATION,
    LONG_MAX,
    MEMORY,
    NAMES,
    TEXT,
    ZONE,
    choice,
    whole_number,
)
from headwater.errors import InvalidOptionError

TABLE_PREFIX = "table."
PRECREATE_MAX = 1000
KV_FORMAT_VERSION_MAX = 2

REPLICATION_FACTOR = Option(
    name="table.replication.factor",
    kind=whole_number(low=1),
    description="Copies kept of each bucket; one server keeps one, so the only value is 1.",
)
LOG_FORMAT = Option(
    name="table.log.format",
    kind=choice(LogFormat),
    default="arrow",
    description="Form in which the log holds rows; only arrow is served.",
)
LOG_COMPRESSION = Option(
    name="table.log.arrow.compression.type",
    kind=choice(ArrowCompression),
    default="zstd",
    description="Codec with which writers compress Arrow batches.",
)
LOG_COMPRESSION_ZSTD_LEVEL = Option(
    name="table.log.arrow.compression.zstd.level",
    kind=whole_number(low=1, high=22),
    default="3",
    description="Effort of the zstd codec: higher is smaller and slower.",
)
LOG_TTL = Option(
    name="table.log.ttl",
    kind=DURATION,
    default="7 d",
    alterable=True,
    description="Age after which log segments may be deleted; 0 ms keeps them for ever.",
)
LOG_RETENTION_BYTES = Option(
    name="table.log.retention.bytes",
    kind=MEMORY,
    alterable=True,
    description="Size of one bucket's log above which its oldest segments may be deleted; "
    "unset means no limit. Not an option of Fluss.",
)
LOG_LOCAL_TTL = Option(
    name="table.log.local-ttl",
    kind=DURATION,
    alterable=True,
    description="Age after which segments that are also stored remotely may be deleted locally; "
    "unset means the same as table.log.ttl.",
)
LOG_TIERED_LOCAL_SEGMENTS = Option(
    name="table.log.tiered.local-segments",
    kind=whole_number(low=1),
    default="2",
    alterable=True,
    description="Segments of each bucket that stay local although they are stored remotely.",
)
AUTO_PARTITION_ENABLED = Option(
    name="table.auto-partition.enabled",
    kind=BOOLEAN,
    default="false",
    alterable=True,
    description="Whether partitions are created ahead of time and dropped when they are old.",
)
AUTO_PARTITION_KEY = Option(
    name="table.auto-partition.key",
    kind=TEXT,
    description="Partition key that holds the time; needed when there are several keys.",
)
AUTO_PARTITION_TIME_UNIT = Option(
    name="table.auto-partition.time-unit",
    kind=choice(TimeUnit),
    default="day",
    description="Span of time that one partition covers.",
)
AUTO_PARTITION_TIME_FORMAT = Option(
    name="table.auto-partition.time-format",
    kind=TEXT,
    description="How a time is written as a partition value, largest unit first, made of yyyy, Q, "
    "MM, dd, HH, '-' and '_'; unset means yyyy, yyyyQ, yyyyMM, yyyyMMdd or yyyyMMddHH by unit.",
)
AUTO_PARTITION_TIME_ZONE = Option(
    name="table.auto-partition.time-zone",
    kind=ZONE,
    description="Zone in which partitions begin; unset means the local zone of the server process "
    "(its TZ variable or the machine's setting), so set it where servers may move.",
)
AUTO_PARTITION_NUM_PRECREATE = Option(
    name="table.auto-partition.num-precreate",
    kind=whole_number(low=0, high=PRECREATE_MAX),
    default="2",
    alterable=True,
    description="Partitions to have ready, the current one included; 0 for several partition keys.",
)
AUTO_PARTITION_NUM_RETENTION = Option(
    name="table.auto-partition.num-retention",
    kind=whole_number(),
    default="7",
    alterable=True,
    description="Past partitions to keep beside the current one; a negative number keeps all.",
)
STATISTICS_COLUMNS = Option(
    name="table.statistics.columns",
    kind=NAMES,
    alterable=True,
    description="Columns whose smallest and largest values writers note in each batch; "
    "'*' means every column of a supported type, unset means none.",
)
DATALAKE_ENABLED = Option(
    name="table.datalake.enabled",
    kind=BOOLEAN,
    default="false",
    alterable=True,
    description="Whether rows are also written to a lake table.",
)
DATALAKE_HISTORICAL_PARTITION_ENABLED = Option(
    name="table.datalake.historical-partition.enabled",
    kind=BOOLEAN,
    default="false",
    alterable=True,
    description="Whether lookups in expired partitions are answered from the lake.",
)
DATALAKE_FORMAT = Option(
    name="table.datalake.format",
    kind=choice(LakeFormat),
    description="Lake format of the table, which also decides how rows find their bucket; unset "
    "means that of the server when tiering is enabled. Cannot be changed once it is set.",
)
DATALAKE_FRESHNESS = Option(
    name="table.datalake.freshness",
    kind=DURATION,
    default="3 min",
    alterable=True,
    description="How far the lake table may lag behind.",
)
DATALAKE_AUTO_COMPACTION = Option(
    name="table.datalake.auto-compaction",
    kind=BOOLEAN,
    default="false",
    alterable=True,
    description="Whether small lake files are merged while tiering.",
)
DATALAKE_AUTO_EXPIRE_SNAPSHOT = Option(
    name="table.datalake.auto-expire-snapshot",
    kind=BOOLEAN,
    default="false",
    alterable=True,
    description="Whether old lake snapshots are dropped while tiering.",
)
DATALAKE_SYSTEM_COLUMNS = Option(
    name="table.datalake.system-columns",
    kind=BOOLEAN,
    description="Whether a lake table that is made has the columns __bucket, __offset and "
    "__timestamp behind those of the table, which Flink needs to read it through Apache Fluss "
    "0.9; unset means yes for Paimon, no for Iceberg.",
)
KV_FORMAT = Option(
    name="table.kv.format",
    kind=choice(KvFormat),
    default="compacted",
    description="Form in which a primary-key table holds its current rows; "
    "only compacted is served.",
)
KV_FORMAT_VERSION = Option(
    name="table.kv.format-version",
    kind=whole_number(low=1, high=KV_FORMAT_VERSION_MAX),
    description="Version of the key encoding of a primary-key table, filled in by the server.",
)
KV_STANDBY_REPLICA_ENABLED = Option(
    name="table.kv.standby-replica.enabled",
    kind=BOOLEAN,
    alterable=True,
    description="Whether a primary-key table keeps a warm copy of its state.",
)
KV_TTL = Option(
    name="table.kv.ttl",
    kind=DURATION,
    description="Age after which a row of a primary-key table is gone; unset keeps rows.",
)
KV_TTL_TIME_COLUMN = Option(
    name="table.kv.ttl.time-column",
    kind=TEXT,
    description="Column of type TIMESTAMP, TIMESTAMP_LTZ or BIGINT (milliseconds since 1970) from "
    "which a row's age counts; unset means its last write.",
)
MERGE_ENGINE = Option(
    name="table.merge-engine",
    kind=choice(MergeEngine),
    description="How rows of one primary key are merged; unset means the last row wins.",
)
MERGE_ENGINE_VERSION_COLUMN = Option(
    name="table.merge-engine.versioned.ver-column",
    kind=TEXT,
    description="Column whose largest value wins under the versioned merge engine.",
)
DELETE_BEHAVIOR = Option(
    name="table.delete.behavior",
    kind=choice(DeleteBehavior),
    description="What happens to deletes of a primary-key table; unset means ignore "
    "under a merge engine and allow otherwise.",
)
AUTO_INCREMENT_CACHE_SIZE = Option(
    name="table.auto-increment.cache-size",
    kind=whole_number(low=1, high=LONG_MAX),
    default="100000",
    description="Numbers of an auto-increment column that are reserved at a time.",
)
CHANGELOG_IMAGE = Option(
    name="table.changelog.image",
    kind=choice(ChangelogImage),
    default="full",
    description="Whether the changelog of a primary-key table shows rows before an update.",
)

TABLE_OPTIONS: Mapping[str, Option[object]] = {
    option.name: option for option in tuple(globals().values()) if isinstance(option, Option)
}
ALTERABLE_NAMES = tuple(sorted(name for name, one in TABLE_OPTIONS.items() if one.alterable))


def is_table_option(name: str) -> bool:
    """Tell whether a property is an option of tables rather than a custom property."""
    return name.startswith(TABLE_PREFIX)


def declared(name: str) -> Option[object]:
    """Return the declaration of an option, or suggest the one that was meant."""
    if option := TABLE_OPTIONS.get(name):
        return option
    if not is_table_option(name):
        raise InvalidOptionError(
            f"{shown(name)} is not an option of tables.", hint="Pass it as a custom property."
        )
    close = get_close_matches(name[:200], TABLE_OPTIONS, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else "See the reference of table options."
    raise InvalidOptionError(f"There is no table option {shown(name)}.", hint=hint)


def check_properties(properties: Mapping[str, str]) -> None:
    """Check that every property is a declared option with a value of its kind."""
    for name, text in properties.items():
        declared(name).read(text)
