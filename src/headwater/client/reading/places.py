"""Buckets by the names that people use, and by the ids that servers use."""

from collections.abc import Collection, Iterable, Mapping

from headwater.client.cluster import Cluster
from headwater.client.reading.log_batch import Place
from headwater.errors import NotPartitionedError, PartitionMissingError, RequestError
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo

Buckets = Mapping[Place, TableBucket]


async def buckets_of(
    cluster: Cluster, table: TableInfo, *, partitions: Collection[str] | None = None
) -> dict[Place, TableBucket]:
    """Return all buckets that a table has now, or those of some partitions."""
    if not table.is_partitioned:
        if partitions is not None:
            raise NotPartitionedError(f"{table.path} has no partitions.")
        return _of_partition(table, None, None)
    known = await cluster.partitions(table)
    if partitions is not None:
        known = {name: _known(known, name, table) for name in sorted(partitions)}
    buckets: dict[Place, TableBucket] = {}
    for name, partition_id in known.items():
        buckets |= _of_partition(table, name, partition_id)
    return buckets


def partitions_of(buckets: Buckets) -> dict[int, str]:
    """Return id and name of every partition that has some of the buckets."""
    return {
        bucket.partition_id: place.partition
        for place, bucket in buckets.items()
        if bucket.partition_id is not None and place.partition is not None
    }


async def buckets_at(
    cluster: Cluster, table: TableInfo, places: Iterable[Place]
) -> dict[Place, TableBucket]:
    """Return the buckets at some places, or say which there is not."""
    places = tuple(places)
    for place in places:
        if (place.partition is not None) != table.is_partitioned:
            kind = "partitioned" if table.is_partitioned else "not partitioned"
            raise RequestError(f"{place} is no bucket of {table.path}, which is {kind}.")
        if not 0 <= place.bucket < table.bucket_count:
            raise RequestError(
                f"{table.path} has no bucket {place.bucket}.",
                hint=f"Its buckets are 0 to {table.bucket_count - 1}.",
            )
    return {place: await _bucket(cluster, table, place) for place in places}


async def _bucket(cluster: Cluster, table: TableInfo, place: Place) -> TableBucket:
    partition_id = None
    if place.partition is not None:
        partition_id = await cluster.partition_id(table, place.partition)
    return TableBucket(table.table_id, place.bucket, partition_id)


def _of_partition(
    table: TableInfo, name: str | None, partition_id: int | None
) -> dict[Place, TableBucket]:
    return {
        Place(name, number): TableBucket(table.table_id, number, partition_id)
        for number in range(table.bucket_count)
    }


def _known(partitions: Mapping[str, int], name: str, table: TableInfo) -> int:
    if name not in partitions:
        raise PartitionMissingError(
            f"{table.path} has no partition {name}.",
            hint=f"Its partitions are {', '.join(sorted(partitions)) or 'none'}.",
        )
    return partitions[name]
