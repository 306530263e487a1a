"""Where the logs of a table begin and end, and how many rows it has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from headwater.client.cluster import Cluster
from headwater.client.reading.by_leader import ask_leaders
from headwater.client.reading.log_batch import Place
from headwater.client.reading.places import Buckets
from headwater.errors import HeadwaterError, LogDivergedError, RequestError, error_of_code
from headwater.model.bucket import TableBucket
from headwater.model.lineage import NO_LINEAGE, UNKNOWN, Lineage, LogPosition, lineage_of
from headwater.model.table import TableInfo
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.offset_type import OffsetType

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
    """Refuse logs that are not those any more of which these positions were told."""
    known = [each for each in positions if each.incarnation != UNKNOWN]
    buckets = list(dict.fromkeys(each.bucket for each in known))
    found = await _list(cluster, table, "earliest", buckets, lineage=True)
    for each in known:
        if not found[each.bucket].lineage.holds(each.position, each.incarnation):
            raise LogDivergedError(
                f"{table.path} does not hold the rows before offset {each.position} of bucket"
                f" {each.bucket.bucket} any more."
            )


async def _list(
    cluster: Cluster, table: TableInfo, when: When, buckets: list[TableBucket], *, lineage: bool
) -> dict[TableBucket, LogEnd]:
    offset_type, timestamp_ms = _moment(when)

    async def ask(
        node: int, asked: list[TableBucket]
    ) -> Mapping[TableBucket, LogEnd | HeadwaterError]:
        found: dict[TableBucket, LogEnd | HeadwaterError] = {}
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
            for each in pb.ListOffsetsResponse.FromString(bytes(body)).buckets_resp:
                bucket = TableBucket(table.table_id, each.bucket_id, partition_id)
                found[bucket] = _fault(each) or LogEnd(each.offset, lineage_of(each.starts))
        return found

    what = f"Finding offsets of {table.path}"
    return await ask_leaders(cluster, buckets, ask, what=what)


async def count_rows(cluster: Cluster, table: TableInfo, *, buckets: Buckets) -> int:
    """Return how many rows there are: those held by key, or all in the log."""

    async def ask(
        node: int, asked: list[TableBucket]
    ) -> Mapping[TableBucket, int | HeadwaterError]:
        request = pb.GetTableStatsRequest(
            table_id=table.table_id,
            buckets_req=[
                pb.TableStatsBucketRequest(bucket_id=each.bucket, partition_id=each.partition_id)
                for each in asked
            ],
        )
        body = await cluster.call_node(node, _GET_TABLE_STATS, [request.SerializeToString()])
        found: dict[TableBucket, int | HeadwaterError] = {}
        for each in pb.GetTableStatsResponse.FromString(bytes(body)).buckets_resp:
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
            raise RequestError(
                f"{when} has no time zone, so it could mean many moments.",
                hint="Give one, as in datetime.now(UTC) or when.astimezone().",
            )
        case _:
            raise RequestError(
                f"{when!r} is no moment of a log.",
                hint="Use 'earliest', 'latest', a datetime, or an offset for each bucket.",
            )


def _fault(
    answer: pb.ListOffsetsBucketResponse | pb.TableStatsBucketResponse,
) -> HeadwaterError | None:
    if not answer.error_code:
        return None
    return error_of_code(answer.error_code, answer.error_message)
