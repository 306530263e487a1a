"""Where a reader begins."""

from collections.abc import Mapping

from headwater.client.cluster import Cluster
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import When, list_offsets
from headwater.client.reading.places import Buckets
from headwater.errors import RequestError
from headwater.model.table import TableInfo

Start = When | Mapping[Place, int] | Mapping[int, int]
"""A moment, or an offset for each bucket, named by number where there are no partitions."""


async def start_offsets(
    cluster: Cluster, table: TableInfo, start: Start, *, buckets: Buckets
) -> dict[Place, int]:
    """Return where to begin in each bucket; those that are not named begin at the earliest."""
    if not isinstance(start, Mapping):
        return await list_offsets(cluster, table, start, buckets=buckets)
    named = {_place(key): offset for key, offset in start.items()}
    if unknown := [place for place in named if place not in buckets]:
        raise RequestError(f"There is no bucket {unknown[0]} to start in.")
    if negative := [offset for offset in named.values() if offset < 0]:
        raise RequestError(f"No log has the offset {negative[0]}.", hint="Use 'earliest'.")
    others = {place: bucket for place, bucket in buckets.items() if place not in named}
    found = await list_offsets(cluster, table, "earliest", buckets=others) if others else {}
    return {place: named[place] if place in named else found[place] for place in buckets}


def _place(key: Place | int) -> Place:
    return key if isinstance(key, Place) else Place(None, key)
