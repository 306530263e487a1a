"""What the catalog knows of the lake, compared with how far the logs go."""

from collections.abc import Mapping

from headwater.audit.files.catalog_seen import CatalogSeen, TableSeen
from headwater.audit.finding import Check, Finding
from headwater.audit.report import Notes
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket


def check_boundaries(catalog: CatalogSeen, ends: Mapping[TableBucket, int], notes: Notes) -> None:
    """Check that no log ends before what the lake holds of it."""
    for table in catalog.tables.values():
        snapshots = catalog.lake_snapshots.get(table.table_id)
        for lake_bucket, tiered in (snapshots[-1].tiered.ends if snapshots else {}).items():
            _check(table, lake_bucket, tiered, catalog=catalog, ends=ends, notes=notes)


def _check(
    table: TableSeen,
    lake_bucket: LakeBucket,
    tiered: int,
    *,
    catalog: CatalogSeen,
    ends: Mapping[TableBucket, int],
    notes: Notes,
) -> None:
    partition_id = lake_bucket.partition_id
    if partition_id is not None and partition_id not in catalog.partitions:
        return
    bucket = TableBucket(table.table_id, lake_bucket.bucket, partition_id)
    end = ends.get(bucket, 0)
    if tiered <= end:
        return
    notes.bad(
        Finding(
            check=Check.BOUNDARY,
            table=table.name,
            partition=None if partition_id is None else catalog.partitions[partition_id][1],
            bucket=bucket.bucket,
            offset=end,
            message=f"The lake holds the bucket up to offset {tiered}, but its log ends at {end}:"
            " rows that are written now would get offsets that the lake has given to others.",
            remedy="Restore the log of the bucket from a copy before anything is written.",
        )
    )
