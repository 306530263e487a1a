"""Places in the logs of a table: buckets by name, where logs begin and end, where to start."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.cluster.leaders import ask_leaders
from headwater.model import Lineage, LogPosition, TableBucket, TableInfo
from headwater.model.bucket import NO_LINEAGE, UNKNOWN, lineage_of
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.fetch import OffsetType
from headwater.wire.messages import answer_of

# What a reader of the log is given, and how it names buckets.


@dataclass(frozen=True, slots=True, eq=False)
class LogBatch:
    """Hold rows of one bucket in the order of the log."""

    rows: pa.RecordBatch
    """The rows, in the schema of the reader."""
    changes: npt.NDArray[np.uint8] | None
    """The `headwater.ChangeType` of each row; None for a log table."""
    offsets: npt.NDArray[np.int64]
    """The log offset of each row; offsets can be missing where rows were filtered out."""
    timestamp_ms: int
    """When the rows were written; the last of them, where that differs."""
    bucket: TableBucket
    partition: str | None
    timestamps: npt.NDArray[np.int64] | None = None
    """When each of the rows was written, where that differs."""

    def row_timestamps(self) -> npt.NDArray[np.int64]:
        """Return when each of the rows was written."""
        if self.timestamps is not None:
            return self.timestamps
        return np.full(self.rows.num_rows, self.timestamp_ms, np.int64)

    @property
    def first_timestamp_ms(self) -> int:
        """Return when the first of the rows was written."""
        return self.timestamp_ms if self.timestamps is None else int(self.timestamps[0])


@dataclass(frozen=True, slots=True)
class Place:
    """Name a bucket as people do: by the name of its partition, if any, and its number."""

    partition: str | None
    bucket: int


Offsets = Mapping[Place, int]
"""A log offset for each bucket."""


# Buckets by the names that people use, and by the ids that servers use.

Buckets = Mapping[Place, TableBucket]


async def buckets_of(
    cluster: Cluster, table: TableInfo, *, partitions: Collection[str] | None = None
) -> dict[Place, TableBucket]:
    """Return all buckets that a table has now, or those of some partitions."""
    if not table.is_partitioned:
        if partitions is not None:
            raise errors.NotPartitionedError(f"{table.path} has no partitions.")
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
            raise errors.RequestError(f"{place} is not a bucket of {table.path}, which is {kind}.")
        if not 0 <= place.bucket < table.bucket_count:
            raise errors.RequestError(
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
        raise errors.PartitionMissingError(
            f"{table.path} has no partition {name}.",
            hint=f"Its partitions are {', '.join(sorted(partitions)) or 'none'}.",
        )
    return partitions[name]


# Where the logs of a table begin and end, and how many rows it has.

When = Literal["earliest", "latest"] | datetime
"""A moment of a log; at a time stands the first row that was written then or later."""

_LIST_OFFSETS = API_OF_REQUEST[pb.ListOffsetsRequest]
_GET_TABLE_STATS = API_OF_REQUEST[pb.GetTableStatsRequest]
_NO_FOLLOWER = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Hold an offset of a log, and who wrote the log."""

    offset: int
    lineage: Lineage = NO_LINEAGE


async def list_offsets(
    cluster: Cluster, table: TableInfo, when: When, *, buckets: Buckets
) -> dict[Place, int]:
    """Return the offset at a moment in each bucket."""
    found = await _list(cluster, table, when, list(buckets.values()), lineage=False)
    return {place: found[bucket].offset for place, bucket in buckets.items()}


async def list_ends(cluster: Cluster, table: TableInfo, *, buckets: Buckets) -> dict[Place, LogEnd]:
    """Return where the log of each bucket ends, and who wrote it."""
    found = await _list(cluster, table, "latest", list(buckets.values()), lineage=True)
    return {place: found[bucket] for place, bucket in buckets.items()}


async def check_positions(
    cluster: Cluster, table: TableInfo, positions: Sequence[LogPosition]
) -> None:
    """Refuse logs that no longer have the rows before these positions."""
    known = [each for each in positions if each.incarnation != UNKNOWN]
    buckets = list(dict.fromkeys(each.bucket for each in known))
    found = await _list(cluster, table, "earliest", buckets, lineage=True)
    for each in known:
        if not found[each.bucket].lineage.holds(each.position, each.incarnation):
            raise errors.LogDivergedError(
                f"{table.path} no longer holds the rows before offset {each.position} of bucket"
                f" {each.bucket.bucket}."
            )


async def _list(
    cluster: Cluster, table: TableInfo, when: When, buckets: list[TableBucket], *, lineage: bool
) -> dict[TableBucket, LogEnd]:
    offset_type, timestamp_ms = _moment(when)

    async def ask(
        node: int, asked: list[TableBucket]
    ) -> Mapping[TableBucket, LogEnd | errors.HeadwaterError]:
        found: dict[TableBucket, LogEnd | errors.HeadwaterError] = {}
        for partition_id in dict.fromkeys(bucket.partition_id for bucket in asked):
            request = pb.ListOffsetsRequest(
                follower_server_id=_NO_FOLLOWER,
                offset_type=offset_type,
                table_id=table.table_id,
                partition_id=partition_id,
                bucket_id=[each.bucket for each in asked if each.partition_id == partition_id],
                start_timestamp=timestamp_ms,
            )
            if lineage:
                request.lineage = True
            body = await cluster.call_node(node, _LIST_OFFSETS, [request.SerializeToString()])
            for each in answer_of(pb.ListOffsetsResponse, body).buckets_resp:
                bucket = TableBucket(table.table_id, each.bucket_id, partition_id)
                found[bucket] = _fault(each) or LogEnd(each.offset, lineage_of(each.starts))
        return found

    what = f"Finding offsets of {table.path}"
    return await ask_leaders(cluster, buckets, ask, what=what)


async def count_rows(cluster: Cluster, table: TableInfo, *, buckets: Buckets) -> int:
    """Return how many rows there are: those held by key, or all in the log."""

    async def ask(
        node: int, asked: list[TableBucket]
    ) -> Mapping[TableBucket, int | errors.HeadwaterError]:
        request = pb.GetTableStatsRequest(
            table_id=table.table_id,
            buckets_req=[
                pb.TableStatsBucketRequest(bucket_id=each.bucket, partition_id=each.partition_id)
                for each in asked
            ],
        )
        body = await cluster.call_node(node, _GET_TABLE_STATS, [request.SerializeToString()])
        found: dict[TableBucket, int | errors.HeadwaterError] = {}
        for each in answer_of(pb.GetTableStatsResponse, body).buckets_resp:
            partition_id = each.partition_id if each.HasField("partition_id") else None
            bucket = TableBucket(table.table_id, each.bucket_id, partition_id)
            found[bucket] = _fault(each) or each.row_count
        return found

    what = f"Counting the rows of {table.path}"
    found = await ask_leaders(cluster, list(buckets.values()), ask, what=what)
    return sum(found.values())


def moment_ms(moment: datetime) -> int:
    """Return the first millisecond since 1970 that is not before a moment."""
    return -((_EPOCH - moment) // _MILLISECOND)


def _moment(when: When) -> tuple[OffsetType, int | None]:
    match when:
        case "earliest":
            return OffsetType.EARLIEST, None
        case "latest":
            return OffsetType.LATEST, None
        case datetime() if when.tzinfo is not None:
            return OffsetType.TIMESTAMP, moment_ms(when)
        case datetime():
            raise errors.RequestError(
                f"{when} has no time zone, so it could mean many moments.",
                hint="Give one, as in datetime.now(UTC) or when.astimezone().",
            )
        case _:
            raise errors.RequestError(
                f"{when!r} is not a moment of a log.",
                hint="Use 'earliest', 'latest', a datetime, or an offset for each bucket.",
            )


def _fault(
    answer: pb.ListOffsetsBucketResponse | pb.TableStatsBucketResponse,
) -> errors.HeadwaterError | None:
    if not answer.error_code:
        return None
    return errors.error_of_code(answer.error_code, answer.error_message)


# Where a reader begins.

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
        raise errors.RequestError(f"There is no bucket {unknown[0]} to start in.")
    if negative := [offset for offset in named.values() if offset < 0]:
        raise errors.RequestError(f"Offset {negative[0]} is negative.", hint="Use 'earliest'.")
    others = {place: bucket for place, bucket in buckets.items() if place not in named}
    found = await list_offsets(cluster, table, "earliest", buckets=others) if others else {}
    return {place: named[place] if place in named else found[place] for place in buckets}


def _place(key: Place | int) -> Place:
    return key if isinstance(key, Place) else Place(None, key)
