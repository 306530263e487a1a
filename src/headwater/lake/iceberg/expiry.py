"""Which snapshots of a table go: decided, not done."""

from itertools import islice

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import ancestors_of

from headwater.lake.iceberg.snapshots import back_to_boundary
from headwater.lake.spi import Retention


def expired_ids(metadata: TableMetadata, retention: Retention, *, now_ms: int) -> frozenset[int]:
    """Return the snapshots that are old and that nobody names.

    Tags and the heads of branches stay, the newest few of each branch, and all from the newest
    back to the one whose boundary holds for it: nobody else knows what the lake holds.
    """
    oldest_ms = now_ms - retention.age_ms
    kept = {each.snapshot_id for each in metadata.snapshots if each.timestamp_ms >= oldest_ms}
    for ref in metadata.refs.values():
        kept.add(ref.snapshot_id)
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            line = ancestors_of(metadata.snapshot_by_id(ref.snapshot_id), metadata)
            kept |= {each.snapshot_id for each in islice(line, max(retention.snapshots_min, 1))}
    kept |= {each.snapshot_id for each in back_to_boundary(metadata)}
    return frozenset(each.snapshot_id for each in metadata.snapshots) - kept
