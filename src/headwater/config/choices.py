"""The options that take one of a few words."""

from enum import StrEnum


class LogFormat(StrEnum):
    """Name the forms in which a log can hold rows."""

    ARROW = "arrow"
    INDEXED = "indexed"
    COMPACTED = "compacted"


class KvFormat(StrEnum):
    """Name the forms in which a key-value state can hold rows."""

    COMPACTED = "compacted"
    INDEXED = "indexed"


class ArrowCompression(StrEnum):
    """Name the codecs of Arrow record batches."""

    NONE = "none"
    LZ4_FRAME = "lz4_frame"
    ZSTD = "zstd"


class TimeUnit(StrEnum):
    """Name the spans of time that one automatic partition can cover."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"


class LakeFormat(StrEnum):
    """Name the lake formats a table can be tiered to."""

    PAIMON = "paimon"
    ICEBERG = "iceberg"
    HUDI = "hudi"
    LANCE = "lance"


class MergeEngine(StrEnum):
    """Name the ways to merge rows of one primary key, other than keeping the last."""

    FIRST_ROW = "first_row"
    VERSIONED = "versioned"
    AGGREGATION = "aggregation"


class DeleteBehavior(StrEnum):
    """Name what can happen to a delete of a primary key."""

    ALLOW = "allow"
    IGNORE = "ignore"
    DISABLE = "disable"


class ChangelogImage(StrEnum):
    """Name how much of an update the changelog shows."""

    FULL = "full"
    WAL = "wal"
