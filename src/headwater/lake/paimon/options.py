"""The Paimon options that table options may set, and how they are read.

Not among those that a table may set: what names places (`data-file.external-paths`, `path`,
`global-index.external-path`), code (`commit.callbacks`), or ways to reach files.
"""

import re
from collections.abc import Mapping

from headwater.errors import InvalidOptionError
from headwater.lake.options import AllowedOptions

ALLOWED = AllowedOptions(
    format="paimon",
    names=(
        "cache-page-size",
        "changelog-file.compression",
        "changelog-file.format",
        "changelog-producer",
        "consumer.expiration-time",
        "data-evolution.enabled",
        "delete-file.thread-num",
        "deletion-vectors.enabled",
        "dynamic-partition-overwrite",
        "file.block-size",
        "file.compression",
        "file.format",
        "ignore-delete",
        "local-merge-buffer-size",
        "merge-engine",
        "metadata.stats-dense-store",
        "metadata.stats-mode",
        "num-levels",
        "page-size",
        "parquet.block.size",
        "parquet.compression.codec.zstd.level",
        "parquet.enable.dictionary",
        "parquet.filter.columnindex.enabled",
        "parquet.page.size",
        "parquet.write-page-index.enabled",
        "partition.default-name",
        "partition.expiration-check-interval",
        "partition.expiration-strategy",
        "partition.expiration-time",
        "partition.timestamp-formatter",
        "partition.timestamp-pattern",
        "primary-key.nullable",
        "read.batch-size",
        "read.parallelism",
        "record-level.expire-time",
        "record-level.time-field",
        "record-level.time-field-type",
        "row-tracking.enabled",
        "rowkind.field",
        "sequence.field",
        "sequence.field.sort-order",
        "sort-engine",
        "sort-spill-buffer-size",
        "sort-spill-threshold",
        "streaming-read-overwrite",
        "tag.automatic-completion",
        "tag.automatic-creation",
        "tag.creation-delay",
        "tag.creation-period",
        "tag.default-time-retained",
        "tag.num-retained-max",
        "tag.period-formatter",
        "target-file-size",
        "write-buffer-for-append",
        "write-buffer-size",
        "write-buffer-spillable",
        "write-manifest-cache",
        "write-max-writers-to-spill",
        "write-only",
    ),
    prefixes=(
        "changelog.",
        "compaction.",
        "file.compression.",
        "file.format.",
        "file-index.",
        "full-compaction.",
        "headwater.compaction.",
        "lookup.",
        "manifest.",
        "num-sorted-run.",
        "orc.compress",
        "snapshot.",
        "source.split.",
    ),
)
PLACES = ("data-file.external-paths", "global-index.external-path", "path")
"""Table options that say where files go; others may have set them."""
INNER_PLACES = ("data-file.path-directory",)
"""The same, below the directory of the table."""

_MIB = 1024 * 1024
TARGET_BYTES_DEFAULT = 128 * _MIB
_SIZE = re.compile(r"(\d+)\s*([a-z]*)\Z")
_SIZE_UNITS = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib", "kibibyte", "kibibytes"), 1024),
    **dict.fromkeys(("m", "mb", "mib", "mebibyte", "mebibytes"), _MIB),
    **dict.fromkeys(("g", "gb", "gib", "gibibyte", "gibibytes"), 1024 * _MIB),
}
_DURATION_UNITS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def target_bytes(options: Mapping[str, str]) -> int:
    """Target size of data files."""
    return _measured(options, "target-file-size", _SIZE_UNITS, default=TARGET_BYTES_DEFAULT)


def manifest_bytes(options: Mapping[str, str]) -> int:
    """Target size of manifests."""
    return _measured(options, "manifest.target-file-size", _SIZE_UNITS, default=8 * _MIB)


def manifest_merge_count(options: Mapping[str, str]) -> int:
    """How many small manifests are merged into one."""
    return number(options, "manifest.merge-min-count", default=30)


def retained_ms(options: Mapping[str, str]) -> int:
    """How long snapshots stay."""
    default = _DURATION_UNITS["h"]
    return _measured(options, "snapshot.time-retained", _DURATION_UNITS, default=default)


def compression(options: Mapping[str, str]) -> tuple[str, int | None]:
    """Compression of data files, and its level."""
    codec = options.get("file.compression", "zstd").lower()
    if codec != "zstd":
        return codec, None
    return codec, number(options, "file.compression.zstd-level", default=1)


def number(options: Mapping[str, str], key: str, *, default: int) -> int:
    """Parse an option that is a whole number."""
    text = options.get(key)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise InvalidOptionError(
            f"The Paimon option '{key}' is {text!r}, which is not a whole number."
        ) from None


def _measured(
    options: Mapping[str, str], key: str, units: Mapping[str, int], *, default: int
) -> int:
    text = options.get(key)
    if text is None:
        return default
    match = _SIZE.match(text.strip().lower())
    if match is None or match[2] not in units:
        raise InvalidOptionError(
            f"The Paimon option '{key}' is {text!r}, which is not a number with a unit.",
            hint="Write a number and a unit: 128 mb, 1 h.",
        )
    return int(match[1]) * units[match[2]]
