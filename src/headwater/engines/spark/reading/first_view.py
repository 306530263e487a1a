"""The view of lake and log with which a stream of a table with a lake begins."""

from headwater.client.reading.log_batch import Place
from headwater.client.reading.places import Buckets
from headwater.client.reading.pruning import wanted_buckets
from headwater.client.union.view import TableView
from headwater.engines.spark.options import StartupMode
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.selection import selected_names
from headwater.engines.spark.reading.starts import partition_ids
from headwater.engines.spark.reading.stream_offset import FirstView, StreamOffset
from headwater.engines.spark.reading.view_read import ViewShare, shares_of, view_splits
from headwater.engines.spark.reading.views import look, reads_view
from headwater.engines.spark.source_options import Position, SourceOptions
from headwater.errors import LakeSnapshotMissingError, LogGapError, PositionMissingError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket

BEFORE_VIEW = StreamOffset(positions={}, is_before_view=True)


def begins_with_view(reading: Reading, options: SourceOptions) -> bool:
    """Tell whether a stream begins with the rows of lake and log."""
    return options.mode is StartupMode.FULL and reads_view(reading, options)


def offset_after_view(reading: Reading, options: SourceOptions) -> StreamOffset:
    """Take a view as the table is now, and return where its logs go on.

    Rows by key of which the lake has none yet are read as states of their buckets, as they are of
    a table without a lake: that asks less of the log than a view that is read again.
    """
    link = reading.link()
    view = link.loop.run(look(link.awaiting, reading.table, options.position))
    snapshot = view.value.snapshot
    buckets = _selected(view.value, reading, options)
    reads_states = snapshot is None and reading.table.is_keyed
    first = FirstView(view.token(), None if snapshot is None else snapshot.snapshot_id)
    return StreamOffset(
        positions={place: _end(view.value, bucket) for place, bucket in buckets.items()},
        partition_ids=partition_ids(buckets),
        state_ms=view.value.read_ms if reads_states else None,
        view=None if reads_states else first,
    )


def first_shares(first: FirstView, reading: Reading, options: SourceOptions) -> list[ViewShare]:
    """Return what each task reads of the view, which is the same rows each time."""
    link = reading.link()
    try:
        looking = look(link.awaiting, reading.table, Position(token=first.token))
        view = link.loop.run(looking).value
        splits = view_splits(view, reading, options)
    except (PositionMissingError, LakeSnapshotMissingError, LogGapError) as fault:
        raise PositionMissingError(
            f"The first rows of the stream cannot be read again: {fault}",
            hint="Start the query with a new checkpoint location, and empty what it had written.",
        ) from fault
    return [ViewShare(view, share) for share in shares_of(splits, options)]


def _selected(view: TableView, reading: Reading, options: SourceOptions) -> Buckets:
    """Return the buckets of a view that the stream follows, which are those it would find."""
    named = selected_names(reading, options)
    found: dict[Place, TableBucket] = {}
    for each in view.logs:
        name = None if each.partition_id is None else view.partitions[each.partition_id]
        if named is None or name in named:
            bucket = TableBucket(view.table.table_id, each.bucket, each.partition_id)
            found[Place(name, each.bucket)] = bucket
    return wanted_buckets(found, reading.table.descriptor, reading.filter())


def _end(view: TableView, bucket: TableBucket) -> int:
    return view.logs[LakeBucket(bucket.partition_id, bucket.bucket)].end
