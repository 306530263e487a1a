"""All values of one bucket of a primary-key table, as they are at one log offset."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from headwater.client.cluster import Cluster
from headwater.errors import (
    HeadwaterError,
    RetryLaterError,
    ScannerLimitError,
    ScannerMissingError,
    error_of_code,
    moves_leader,
)
from headwater.model.bucket import TableBucket
from headwater.rows.row_bytes import RowBytes
from headwater.runtime.tasks import to_the_end
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.value_batch import read_value_batch

_SCAN_KV = API_OF_REQUEST[pb.ScanKvRequest]
_CLOSE_WITHIN_S = 5.0


class BucketScan:
    """Scan one bucket; the next part is asked for while the caller handles the last.

    The server holds the state still from the first call on. When its scanner is lost, the rest
    of that state is lost as well, and only a new scan can help.
    """

    def __init__(self, cluster: Cluster, bucket: TableBucket, *, limit: int | None) -> None:
        self._cluster = cluster
        self._bucket = bucket
        self._limit = limit
        self._node = 0
        self._calls = 0
        self._scanner_id = b""
        self.log_offset: int | None = None
        """The offset at which the log goes on from the state; None before the first part."""

    async def parts(self) -> AsyncGenerator[RowBytes, None]:
        """Yield the values, each with its schema id in front."""
        following: asyncio.Task[pb.ScanKvResponse] | None = None
        try:
            answer = await self._cluster.retries.run(self._open, what=f"Scanning {self._bucket}")
            self.log_offset = answer.log_offset
            while True:
                following = None
                if answer.has_more_results:
                    following = asyncio.get_running_loop().create_task(self._continue())
                if answer.records:
                    yield read_value_batch(memoryview(answer.records))
                if following is None:
                    return
                answer = await following
        finally:
            if following is not None:
                following.cancel()
            if self._scanner_id:
                await self._close()

    async def _open(self) -> pb.ScanKvResponse:
        begun = pb.ScanKvBucketRequest(
            table_id=self._bucket.table_id,
            partition_id=self._bucket.partition_id,
            bucket_id=self._bucket.bucket,
            limit=self._limit,
        )
        try:
            self._node = await self._cluster.leader(self._bucket)
            request = pb.ScanKvRequest(bucket_scan_req=begun, call_seq_id=0)
            # Whoever gives up now still hears of the scanner, and closes it.
            opening = asyncio.get_running_loop().create_task(self._call(request))
            return await to_the_end(opening)
        except ScannerLimitError as fault:
            # Others are scanning; there will be room when they are done.
            raise RetryLaterError(fault.message) from fault
        except HeadwaterError as fault:
            if moves_leader(fault):
                self._cluster.stale(self._bucket)
            raise

    async def _continue(self) -> pb.ScanKvResponse:
        self._calls += 1
        request = pb.ScanKvRequest(scanner_id=self._scanner_id, call_seq_id=self._calls)
        try:
            return await self._call(request)
        except HeadwaterError as fault:
            self._scanner_id = b""
            if not fault.retriable:
                raise
            raise ScannerMissingError(
                f"The scan of {self._bucket} was broken off: {fault}", hint="Start it again."
            ) from fault

    async def _close(self) -> None:
        # The server forgets a scanner that is not used, so this need not succeed.
        request = pb.ScanKvRequest(scanner_id=self._scanner_id, close_scanner=True)
        with suppress(HeadwaterError):
            await self._call(request, timeout_s=_CLOSE_WITHIN_S)

    async def _call(
        self, request: pb.ScanKvRequest, *, timeout_s: float | None = None
    ) -> pb.ScanKvResponse:
        request.batch_size_bytes = self._cluster.settings.state_scan_bytes_max
        body = await self._cluster.call_node(
            self._node, _SCAN_KV, [request.SerializeToString()], timeout_s=timeout_s
        )
        answer = pb.ScanKvResponse.FromString(bytes(body))
        if answer.error_code:
            raise error_of_code(answer.error_code, answer.error_message)
        if not request.close_scanner:
            self._scanner_id = answer.scanner_id if answer.has_more_results else b""
        return answer
