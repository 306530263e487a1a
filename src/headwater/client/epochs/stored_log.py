"""One bucket's log as it is stored, without the rows where only the batches matter."""

from collections.abc import AsyncIterator, Sequence

from headwater.client.cluster import Cluster
from headwater.client.reading.fetch_request import FetchSize, fetch_request
from headwater.client.reading.followed import Followed
from headwater.client.reading.log_batch import Place
from headwater.client.reading.log_reader import StoredBatch, stored_batches
from headwater.client.reading.remote_log import with_records
from headwater.client.reading.view import View
from headwater.errors import (
    HeadwaterError,
    InvalidProjectionError,
    LeaderMissingError,
    error_of_code,
    moves_leader,
)
from headwater.model.arrow import arrow_schema
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.model.lineage import LogPosition
from headwater.model.table import TableInfo
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.fetch_answer import BucketAnswer, decode_fetch_answer

_FETCH_LOG = API_OF_REQUEST[pb.FetchLogRequest]


class StoredLog:
    """Read the log of one bucket."""

    def __init__(
        self, cluster: Cluster, table: TableInfo, bucket: TableBucket, *, with_rows: bool
    ) -> None:
        self._cluster = cluster
        self._bucket = bucket
        self._view = View.of(table, columns=None if with_rows else [_narrowest(table)])
        self._size = FetchSize.of(cluster.settings)
        self._projects = self._view.positions is not None
        self.seen: LogPosition | None = None
        """How far batches were read last, and who wrote that."""

    async def batches(self, wanted: OffsetRange) -> AsyncIterator[StoredBatch]:
        """Yield the batches that begin in a range."""
        offset = wanted.start
        while offset < wanted.end:
            for batch in await self._fetch(offset):
                offset = batch.header.end_offset
                if batch.header.base_offset < wanted.end:
                    yield batch

    async def _fetch(self, offset: int) -> Sequence[StoredBatch]:
        return await self._cluster.retries.run(
            lambda: self._fetch_once(offset), what=f"Reading the log of {self._bucket}"
        )

    async def _fetch_once(self, offset: int) -> Sequence[StoredBatch]:
        followed = Followed(
            place=Place(None, self._bucket.bucket),
            bucket=self._bucket,
            position=offset,
            next_offset=offset,
            projects=self._projects,
        )
        request = fetch_request(
            self._view, [followed], size=self._size, wait_ms=0, projects=self._projects
        )
        try:
            body = await self._cluster.call_leader(
                self._bucket, _FETCH_LOG, [request.SerializeToString()]
            )
            answer = decode_fetch_answer(body)[0].buckets[0]
            batches = await self._batches(answer, offset)
            followed.learn(answer.fields.incarnation, answer.fields.starts)
            end = batches[-1].header.end_offset
            self.seen = LogPosition(self._bucket, end, followed.lineage.writer_before(end))
            return batches
        except InvalidProjectionError:
            if not self._projects:
                raise
            # Some servers cannot cut batches that were written before a column was added.
            self._projects = False
            return await self._fetch_once(offset)
        except HeadwaterError as fault:
            if moves_leader(fault):
                self._cluster.stale(self._bucket)
            raise

    async def _batches(self, answer: BucketAnswer, offset: int) -> Sequence[StoredBatch]:
        fields = answer.fields
        if fields.error_code:
            raise error_of_code(fields.error_code, fields.error_message)
        chunk_bytes = self._size.share_of(1)
        full = await with_records(answer, offset=offset, chunk_bytes=chunk_bytes)
        batches = stored_batches(full.records)
        if not batches:
            # The range ends where the leader said that the log does; another one is behind.
            raise LeaderMissingError("The log is shorter than it was.")
        return batches


def _narrowest(table: TableInfo) -> str:
    """Return the column that takes the fewest bytes."""
    fields = arrow_schema(table.schema)

    def width(name: str) -> int:
        try:
            bits: int = fields.field(name).type.bit_width
        except ValueError:  # Values of this type differ in length.
            bits = 1 << 16
        return bits

    return min(fields.names, key=width)
