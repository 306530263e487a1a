"""The request for more of several logs, written for one server."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.client.reading.followed import Followed
from headwater.client.reading.view import View
from headwater.config.client import ClientSettings
from headwater.wire import fluss_pb2 as pb
from headwater.wire.predicates import predicate_to_wire

_NO_FOLLOWER = -1
_BYTES_MIN = 1


@dataclass(frozen=True, slots=True)
class FetchSize:
    """Bound what one answer may hold, in all and of each bucket."""

    bytes_max: int
    bucket_bytes_max: int

    @classmethod
    def of(cls, settings: ClientSettings) -> "FetchSize":
        """Return the sizes for reading all there is."""
        return cls(settings.fetch_bytes_max, settings.fetch_bucket_bytes_max)

    def share_of(self, buckets: int) -> int:
        """Return what each of some buckets may bring if they come at once."""
        return max(self.bucket_bytes_max, self.bytes_max // max(buckets, 1))


def fetch_request(
    view: View, followed: Sequence[Followed], *, size: FetchSize, wait_ms: int, projects: bool
) -> pb.FetchLogRequest:
    """Ask for what comes next in these buckets, cut down as far as a server can do it."""
    table = pb.FetchLogTableRequest(
        table_id=view.table.table_id,
        projection_pushdown_enabled=projects,
        buckets_req=[
            pb.FetchLogBucketRequest(
                partition_id=each.bucket.partition_id,
                bucket_id=each.bucket.bucket,
                fetch_offset=each.next_offset,
                max_fetch_bytes=size.bucket_bytes_max,
                incarnation=each.lineage.writer_before(each.next_offset) or None,
            )
            for each in followed
        ],
    )
    if projects and view.positions is not None:
        table.projected_fields.extend(view.positions)
    if view.predicate is not None:
        table.filter_predicate.CopyFrom(predicate_to_wire(view.predicate, view.table.schema))
    if projects or view.predicate is not None:
        # Positions and ids mean those of this version; servers that take no notice only add
        # columns behind the others, so that positions mean the same in all versions.
        table.filter_schema_id = view.table.schema_id
    return pb.FetchLogRequest(
        follower_server_id=_NO_FOLLOWER,
        max_bytes=size.bytes_max,
        tables_req=[table],
        max_wait_ms=wait_ms,
        min_bytes=_BYTES_MIN,
        takes_joined=True,
    )
