"""Where a stream begins: at an offset, at a cursor, or with a view of lake and log."""

from collections.abc import Mapping
from typing import assert_never

from headwater import errors
from headwater.client.client import AsyncClient
from headwater.engines.spark.options import StartupMode
from headwater.engines.spark.read import selection
from headwater.engines.spark.read.batch import moment
from headwater.engines.spark.read.stream_offset import FirstView, Position, StreamOffset
from headwater.engines.spark.read.view import ViewShare, look, reads_view, shares_of, view_splits
from headwater.engines.spark.source_options import LakePosition, SourceOptions
from headwater.model import LakeBucket, TableBucket
from headwater.read.offsets import Buckets, Place, Start, list_offsets, start_offsets
from headwater.read.prune import wanted_buckets
from headwater.read.view import TableView

# Where a stream begins, by what was asked for.


async def first_offset(
    client: AsyncClient, reading: selection.Reading, options: SourceOptions
) -> StreamOffset:
    """Return where to begin in every bucket that there is."""
    buckets = await selection.selected(client.cluster, reading, options)
    positions: Mapping[Place, Position]
    if options.mode is StartupMode.FULL and reading.table.is_keyed:
        ends = await list_offsets(client.cluster, reading.table, "latest", buckets=buckets)
        # Where nothing was written there is nothing to read but changes to come.
        positions = {place: None if end else 0 for place, end in ends.items()}
    else:
        start = await _start(client, reading, options, buckets=buckets)
        positions = await start_offsets(client.cluster, reading.table, start, buckets=buckets)
    return StreamOffset(positions=positions, partition_ids=partition_ids(buckets))


def partition_ids(buckets: Buckets) -> dict[str, int]:
    """Return the ids of the partitions to which buckets belong."""
    return {
        place.partition: bucket.partition_id
        for place, bucket in buckets.items()
        if place.partition is not None and bucket.partition_id is not None
    }


async def _start(
    client: AsyncClient, reading: selection.Reading, options: SourceOptions, *, buckets: Buckets
) -> Start:
    match options.mode:
        case StartupMode.FULL | StartupMode.EARLIEST:
            return "earliest"
        case StartupMode.LATEST:
            return "latest"
        case StartupMode.TIMESTAMP:
            assert options.timestamp_ms is not None
            return moment(options.timestamp_ms)
        case StartupMode.OFFSETS:
            return _named(reading, options.offsets or {}, buckets=buckets)
        case StartupMode.CURSOR:
            assert options.cursor is not None
            return await _of_cursor(client, reading, options.cursor, buckets=buckets)
        case _:
            assert_never(options.mode)


def _named(
    reading: selection.Reading, offsets: Mapping[str, int], *, buckets: Buckets
) -> dict[Place, int]:
    keys = reading.table.descriptor.partition_keys
    named = {selection.place_of(text, keys): offset for text, offset in offsets.items()}
    if unknown := [place for place in named if place not in buckets]:
        known = ", ".join(selection.place_text(place, keys) for place in list(buckets)[:8])
        first = selection.place_text(unknown[0], keys)
        raise errors.RequestError(
            f"{reading.table.path} has no bucket {first} to start in.",
            hint=f"Its buckets are {known}{', …' if len(buckets) > 8 else ''}.",  # noqa: PLR2004
        )
    return named


async def _of_cursor(
    client: AsyncClient, reading: selection.Reading, name: str, *, buckets: Buckets
) -> dict[Place, int]:
    try:
        state = await client.cursors.describe(name, reading.table.path)
    except errors.MissingError as fault:
        raise errors.MissingError(
            fault.message,
            hint="Set it to where to begin with `headwater cursor reset`, or choose another"
            " 'scan.startup.mode'.",
        ) from fault
    return {place: offset for place, offset in state.positions.items() if place in buckets}


BEFORE_VIEW = StreamOffset(positions={}, is_before_view=True)


def begins_with_view(reading: selection.Reading, options: SourceOptions) -> bool:
    """Tell whether a stream begins with the rows of lake and log."""
    return options.mode is StartupMode.FULL and reads_view(reading, options)


def offset_after_view(reading: selection.Reading, options: SourceOptions) -> StreamOffset:
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


def first_shares(
    first: FirstView, reading: selection.Reading, options: SourceOptions
) -> list[ViewShare]:
    """Return what each task reads of the view, which is the same rows each time."""
    link = reading.link()
    try:
        looking = look(link.awaiting, reading.table, LakePosition(token=first.token))
        view = link.loop.run(looking).value
        splits = view_splits(view, reading, options)
    except (
        errors.PositionMissingError,
        errors.LakeSnapshotMissingError,
        errors.LogGapError,
    ) as fault:
        raise errors.PositionMissingError(
            f"The first rows of the stream cannot be read again: {fault}",
            hint="Start the query with a new checkpoint location, and delete what it has written.",
        ) from fault
    return [ViewShare(view, share) for share in shares_of(splits, options)]


def _selected(view: TableView, reading: selection.Reading, options: SourceOptions) -> Buckets:
    """Return the buckets of a view that the stream follows, which are those it would find."""
    named = selection.selected_names(reading, options)
    found: dict[Place, TableBucket] = {}
    for each in view.logs:
        name = None if each.partition_id is None else view.partitions[each.partition_id]
        if named is None or name in named:
            bucket = TableBucket(view.table.table_id, each.bucket, each.partition_id)
            found[Place(name, each.bucket)] = bucket
    return wanted_buckets(found, reading.table.descriptor, reading.filter())


def _end(view: TableView, bucket: TableBucket) -> int:
    return view.logs[LakeBucket(bucket.partition_id, bucket.bucket)].end
