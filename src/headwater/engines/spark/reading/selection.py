"""The buckets of a table that are read, by the partitions named and the filter."""

from headwater.client.cluster import Cluster
from headwater.client.reading.places import Buckets, buckets_of
from headwater.client.reading.pruning import wanted_buckets
from headwater.engines.spark.reading.names import partition_of
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.source_options import SourceOptions


async def selected(cluster: Cluster, reading: Reading, options: SourceOptions) -> Buckets:
    """Return the buckets that can hold wanted rows, or say which partition there is not."""
    names = selected_names(reading, options)
    found = await buckets_of(cluster, reading.table, partitions=names)
    return wanted_buckets(found, reading.table.descriptor, reading.filter())


async def selected_still(cluster: Cluster, reading: Reading, options: SourceOptions) -> Buckets:
    """Return the buckets that are there by now; a partition may have come or gone."""
    names = selected_names(reading, options)
    found = await buckets_of(cluster, reading.table)
    if names is not None:
        found = {place: bucket for place, bucket in found.items() if place.partition in names}
    return wanted_buckets(found, reading.table.descriptor, reading.filter())


def selected_names(reading: Reading, options: SourceOptions) -> frozenset[str] | None:
    """Return the names of the partitions that are asked for, or None for all of them."""
    if options.partitions is None:
        return None
    keys = reading.table.descriptor.partition_keys
    return frozenset(partition_of(text, keys) for text in options.partitions)
