"""The table options, and the enumerations that some of them take."""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum

from headwater.config.values import (
    BOOLEAN,
    DURATION,
    INT_MAX,
    LONG_MAX,
    MEMORY,
    NAMES,
    SHARE,
    TEXT,
    ZONE,
    Option,
    choice,
    memory_size,
    shown,
    whole_number,
)
from headwater.errors import InvalidOptionError


class LogFormat(StrEnum):
    """Formats of rows in a log."""

    ARROW = "arrow"
    INDEXED = "indexed"
    COMPACTED = "compacted"


class KvFormat(StrEnum):
    """Formats of rows in the state of a primary-key table."""

    COMPACTED = "compacted"
    INDEXED = "indexed"


class ArrowCompression(StrEnum):
    """Codecs of Arrow record batches."""

    NONE = "none"
    LZ4_FRAME = "lz4_frame"
    ZSTD = "zstd"


class TimeUnit(StrEnum):
    """Periods that one automatic partition can cover."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"


class LakeFormat(StrEnum):
    """Lake formats that a table can be tiered to."""

    PAIMON = "paimon"
    ICEBERG = "iceberg"
    HUDI = "hudi"
    LANCE = "lance"


class MergeEngine(StrEnum):
    """How rows with the same primary key are merged, if not by keeping the last."""

    FIRST_ROW = "first_row"
    VERSIONED = "versioned"
    AGGREGATION = "aggregation"


class DeleteBehavior(StrEnum):
    """What happens to a delete by primary key."""

    ALLOW = "allow"
    IGNORE = "ignore"
    DISABLE = "disable"


class ChangelogImage(StrEnum):
    """How much of an update the changelog contains."""

    FULL = "full"
    WAL = "wal"


TABLE_PREFIX = "table."
PRECREATE_MAX = 1000
KV_FORMAT_VERSION_MAX = 2
# A segment is smaller than 2 GiB, as its positions are stored in 32 bits.
SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX = 1024, INT_MAX

REPLICATION_FACTOR = Option(
    name="table.replication.factor",
    kind=whole_number(low=1),
    description="Replicas of each bucket; there is one server, so the only value is 1.",
)
LOG_FORMAT = Option(
    name="table.log.format",
    kind=choice(LogFormat),
    default="arrow",
    description="Format of rows in the log; only arrow is supported.",
)
LOG_COMPRESSION = Option(
    name="table.log.arrow.compression.type",
    kind=choice(ArrowCompression),
    default="zstd",
    description="Codec that writers compress Arrow batches with.",
)
LOG_COMPRESSION_ZSTD_LEVEL = Option(
    name="table.log.arrow.compression.zstd.level",
    kind=whole_number(low=1, high=22),
    default="3",
    description="Compression level of zstd: higher is smaller and slower.",
)
LOG_TTL = Option(
    name="table.log.ttl",
    kind=DURATION,
    default="7 d",
    alterable=True,
    description="Age after which log segments may be deleted; 0 ms keeps them forever.",
)
LOG_RETENTION_BYTES = Option(
    name="table.log.retention.bytes",
    kind=MEMORY,
    alterable=True,
    description="Size of one bucket's log above which its oldest segments may be deleted; unset "
    "means no limit. Not an option of Fluss.",
)
LOG_LOCAL_TTL = Option(
    name="table.log.local-ttl",
    kind=DURATION,
    alterable=True,
    description="Age after which segments that are also in remote storage may be deleted "
    "locally; unset means the same as table.log.ttl.",
)
LOG_TIERED_LOCAL_SEGMENTS = Option(
    name="table.log.tiered.local-segments",
    kind=whole_number(low=1),
    default="2",
    alterable=True,
    description="Segments of each bucket that stay local even if they are in remote storage.",
)
LOG_SEGMENT_BYTES = Option(
    name="table.log.segment.bytes",
    kind=memory_size(low=SEGMENT_BYTES_MIN, high=SEGMENT_BYTES_MAX),
    alterable=True,
    description="Size above which a bucket's log begins its next segment; unset means 1 gb. "
    "Retention deletes whole segments. Not an option of Fluss.",
)
LOG_ROLL = Option(
    name="table.log.roll",
    kind=DURATION,
    alterable=True,
    description="Age of its oldest row at which the newest segment is closed, so that retention "
    "can delete it later; unset or 0 ms means by size only. Not an option of Fluss.",
)
LOG_DELETE_DELAY = Option(
    name="table.log.delete-delay",
    kind=DURATION,
    alterable=True,
    description="How long the files of expired segments stay on disk after their rows can no "
    "longer be read; unset or 0 ms deletes them at once. Not an option of Fluss.",
)
AUTO_PARTITION_ENABLED = Option(
    name="table.auto-partition.enabled",
    kind=BOOLEAN,
    default="false",
    alterable=True,
    description="Whether partitions are created in advance and dropped when they are old.",
)
AUTO_PARTITION_KEY = Option(
    name="table.auto-partition.key",
    kind=TEXT,
    description="Partition key that contains the time; required if there are several keys.",
)
AUTO_PARTITION_TIME_UNIT = Option(
    name="table.auto-partition.time-unit",
    kind=choice(TimeUnit),
    default="day",
    description="Period that one partition covers.",
)
AUTO_PARTITION_TIME_FORMAT = Option(
    name="table.auto-partition.time-format",
    kind=TEXT,
    description="How a time is written as a partition value, largest unit first, made of yyyy, "
    "Q, MM, dd, HH, '-' and '_'; unset means yyyy, yyyyQ, yyyyMM, yyyyMMdd or "
    "yyyyMMddHH by unit.",
)
AUTO_PARTITION_TIME_ZONE = Option(
    name="table.auto-partition.time-zone",
    kind=ZONE,
    description="Time zone in which partitions begin; unset means the local zone of the server "
    "process (its TZ variable or the machine's setting), so set it if the server "
    "may move.",
)
AUTO_PARTITION_NUM_PRECREATE = Option(
    name="table.auto-partition.num-precreate",
    kind=whole_number(low=0, high=PRECREATE_MAX),
    default="2",
    alterable=True,
    description="Partitions to create in advance, including the current one; 0 if there are "
    "several partition keys.",
)
AUTO_PARTITION_NUM_RETENTION = Option(
    name="table.auto-partition.num-retention",
    kind=whole_number(),
    default="7",
    alterable=True,
    description="Past partitions to keep besides the current one; a negative number keeps all.",
)
STATISTICS_COLUMNS = Option(
    name="table.statistics.columns",
    kind=NAMES,
    alterable=True,
    description="Columns whose minimum and maximum writers record for each batch; '*' means "
    "every column of a supported type, unset means none.",
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
    description="Lake format of the table, which also decides how rows are assigned to buckets; "
    "unset means the server's format if tiering is enabled. Cannot be changed once "
    "set.",
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
    description="Whether tiering compacts small lake files.",
)
DATALAKE_AUTO_EXPIRE_SNAPSHOT = Option(
    name="table.datalake.auto-expire-snapshot",
    kind=BOOLEAN,
    default="false",
    alterable=True,
    description="Whether tiering expires old lake snapshots.",
)
DATALAKE_SYSTEM_COLUMNS = Option(
    name="table.datalake.system-columns",
    kind=BOOLEAN,
    description="Whether a new lake table gets the columns __bucket, __offset and __timestamp "
    "after those of the table, which Flink needs to read it through Apache Fluss "
    "0.9; unset means yes for Paimon, no for Iceberg.",
)
KV_FORMAT = Option(
    name="table.kv.format",
    kind=choice(KvFormat),
    default="compacted",
    description="Format of the current rows of a primary-key table; only compacted is supported.",
)
KV_FORMAT_VERSION = Option(
    name="table.kv.format-version",
    kind=whole_number(low=1, high=KV_FORMAT_VERSION_MAX),
    description="Version of the key encoding of a primary-key table, set by the server.",
)
KV_STANDBY_REPLICA_ENABLED = Option(
    name="table.kv.standby-replica.enabled",
    kind=BOOLEAN,
    alterable=True,
    description="Whether a primary-key table has a standby copy of its state.",
)
KV_TTL = Option(
    name="table.kv.ttl",
    kind=DURATION,
    description="Age after which a row of a primary-key table expires; unset keeps rows.",
)
KV_TTL_TIME_COLUMN = Option(
    name="table.kv.ttl.time-column",
    kind=TEXT,
    description="Column of type TIMESTAMP, TIMESTAMP_LTZ or BIGINT (milliseconds since 1970) "
    "that a row's age is counted from; unset means its last write.",
)
KV_COMPACTION_ENABLED = Option(
    name="table.kv.compaction.enabled",
    kind=BOOLEAN,
    default="true",
    alterable=True,
    description="Whether replaced and deleted rows of a state give their space back. Not an "
    "option of Fluss.",
)
KV_COMPACTION_INTERVAL = Option(
    name="table.kv.compaction.interval",
    kind=DURATION,
    alterable=True,
    description="Shortest time between two compactions of one bucket's state; unset means about "
    "a second. Not an option of Fluss.",
)
KV_COMPACTION_DIRTY_RATIO = Option(
    name="table.kv.compaction.dirty-ratio",
    kind=SHARE,
    default="0.5",
    alterable=True,
    description="Share of replaced and deleted bytes above which a file of a state is rewritten. "
    "Not an option of Fluss.",
)
MERGE_ENGINE = Option(
    name="table.merge-engine",
    kind=choice(MergeEngine),
    description="How rows with the same primary key are merged; unset means the last row wins.",
)
MERGE_ENGINE_VERSION_COLUMN = Option(
    name="table.merge-engine.versioned.ver-column",
    kind=TEXT,
    description="Column whose largest value wins under the versioned merge engine.",
)
DELETE_BEHAVIOR = Option(
    name="table.delete.behavior",
    kind=choice(DeleteBehavior),
    description="What happens to deletes from a primary-key table; unset means ignore under a "
    "merge engine, otherwise allow.",
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
    description="Whether the changelog of a primary-key table contains the rows before an update.",
)

TABLE_OPTIONS: Mapping[str, Option[object]] = {
    option.name: option for option in tuple(globals().values()) if isinstance(option, Option)
}
ALTERABLE_NAMES = tuple(sorted(name for name, one in TABLE_OPTIONS.items() if one.alterable))


def is_table_option(name: str) -> bool:
    """Tell whether a property is a table option rather than a custom property."""
    return name.startswith(TABLE_PREFIX)


def declared(name: str) -> Option[object]:
    """Look up the declaration of an option; the error suggests a similar name."""
    if option := TABLE_OPTIONS.get(name):
        return option
    if not is_table_option(name):
        raise InvalidOptionError(
            f"{shown(name)} is not a table option.", hint="Pass it as a custom property."
        )
    close = get_close_matches(name[:200], TABLE_OPTIONS, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else "See the reference of table options."
    raise InvalidOptionError(f"There is no table option {shown(name)}.", hint=hint)


def check_properties(properties: Mapping[str, str]) -> None:
    """Check that every property is a declared option with a valid value."""
    for name, text in properties.items():
        declared(name).read(text)
