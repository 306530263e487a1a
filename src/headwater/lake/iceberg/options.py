"""The Iceberg properties that table options may set.

Not among them: what names code (`py-io-impl`, `write.py-location-provider.impl`), places
(`write.data.path`, `write.metadata.path`) or ways to reach files (`s3.*`, `adls.*`, …).
"""

from headwater.lake.options import AllowedOptions

ALLOWED = AllowedOptions(
    format="iceberg",
    names=(
        "comment",
        "format-version",
        "gc.enabled",
        "headwater.compaction.small-files-min",
        "owner",
        "write.avro.compression-codec",
        "write.avro.compression-level",
        "write.distribution-mode",
        "write.format.default",
        "write.metadata.compression-codec",
        "write.metadata.delete-after-commit.enabled",
        "write.metadata.previous-versions-max",
        "write.object-storage.enabled",
        "write.object-storage.partitioned-paths",
        "write.spark.accept-any-schema",
        "write.spark.fanout.enabled",
        "write.summary.partition-limit",
        "write.target-file-size-bytes",
        "write.wap.enabled",
    ),
    prefixes=(
        "commit.",
        "history.expire.",
        "read.",
        "write.delete.",
        "write.merge.",
        "write.metadata.metrics.",
        "write.orc.",
        "write.parquet.",
        "write.update.",
    ),
)

PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Table properties that say where files go; others may have set them."""
CODE = ("py-io-impl", "py-catalog-impl", "write.py-location-provider.impl")
"""Table properties that make pyiceberg import what they name."""
