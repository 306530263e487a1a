"""How many rows a read has, told without reading them."""

from dataclasses import replace

from headwater.client.cluster import Cluster
from headwater.client.reading.offsets import count_rows
from headwater.engines.spark.reading.batch_plan import splits_of
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.selection import selected
from headwater.engines.spark.reading.union_count import exact_rows
from headwater.engines.spark.reading.view_read import view_splits
from headwater.engines.spark.reading.views import reads_view, viewed
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import UnsupportedError


def row_count(options: SourceOptions) -> int | None:
    """Return how many rows there are exactly, or None where only reading tells."""
    reading = Reading.whole(options)
    if options.where is not None:
        return None
    if reads_view(reading, options):
        return _limited(_rows_of_view(options), options)
    link = reading.link()
    rows = link.loop.run(_rows(link.awaiting.cluster, reading, options))
    return _limited(rows, options)


def _rows_of_view(options: SourceOptions) -> int | None:
    reading, view = viewed(options)
    assert view is not None
    splits = view_splits(view, reading, replace(options, limit=None))
    rows = exact_rows(splits, is_keyed=view.table.is_keyed)
    # Of partitions that were dropped the lake may have rows still, under names of others too.
    asks = view.table.is_keyed and not view.table.is_partitioned and options.position.is_latest
    if rows is not None or not asks:
        return rows
    link = reading.link()
    return link.loop.run(_rows(link.awaiting.cluster, reading, options))


def estimated_rows(options: SourceOptions) -> int:
    """Return how many rows there are about: of a filtered read, as many as it looks at."""
    reading = Reading.whole(options)
    link = reading.link()
    cluster = link.awaiting.cluster
    rows = link.loop.run(_rows(cluster, reading, options))
    if rows is None:
        splits = link.loop.run(splits_of(cluster, reading, options))
        rows = sum(split.weight for split in splits)
    return _limited(rows, options) or 0


async def _rows(cluster: Cluster, reading: Reading, options: SourceOptions) -> int | None:
    """Return how many rows are in the selected buckets, if that is known."""
    if not reading.table.is_keyed:
        return sum(split.weight for split in await splits_of(cluster, reading, options))
    if reading.virtual is not None or options.as_of_ms is not None:
        # Writes that changed nothing take offsets of the log as well.
        return None
    buckets = await selected(cluster, reading, options)
    try:
        return await count_rows(cluster, reading.table, buckets=buckets)
    except UnsupportedError:
        return None


def _limited(rows: int | None, options: SourceOptions) -> int | None:
    return rows if rows is None or options.limit is None else min(rows, options.limit)
