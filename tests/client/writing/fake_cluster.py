"""Servers in memory that take appends, and do what a test tells them."""

import asyncio
from collections.abc import Callable
from itertools import count

from headwater.cluster.cluster import Retries
from headwater.config.client import ClientSettings
from headwater.errors import HeadwaterError
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import IntType
from headwater.rows.log_batch import read_header
from headwater.runtime.clock import SystemClock
from headwater.wire import fluss_pb2 as pb
from headwater.wire.write import decode_produce

TABLE = TableInfo(
    path=TablePath("fluss", "rows"),
    table_id=1,
    schema_id=1,
    descriptor=TableDescriptor(
        schema=Schema(columns=(Column(name="id", type=IntType(), column_id=0),)),
        bucket_keys=("id",),
        bucket_count=3,
    ),
    created_ms=0,
    modified_ms=0,
)


class FakeCluster:
    """Append to lists; `meet` sees each batch first and may raise, wait, or do nothing."""

    def __init__(self, **limits) -> None:
        limits = {"backoff_first_s": 0.001, "backoff_max_s": 0.01} | limits
        self.settings = ClientSettings(**limits)
        self.clock = SystemClock()
        self.retries = Retries(self.settings, self.clock)
        self.requests: list[tuple[int, list[int]]] = []
        self.taken: list[tuple[int, int, int, int]] = []
        self.stale_buckets: list[TableBucket] = []
        self.node_id = 1
        self.meet: Callable[[int, int], object] = lambda node_id, bucket: None
        self.leaves_out: set[int] = set()
        self._writer_ids = count(100)

    async def leader(self, bucket: TableBucket) -> int:
        return self.node_id

    def stale(self, bucket: TableBucket) -> None:
        self.stale_buckets.append(bucket)

    async def ask(self, request, response, *, coordinator=False):
        assert isinstance(request, pb.InitWriterRequest)
        return pb.InitWriterResponse(writer_id=next(self._writer_ids))

    async def call_node(self, node_id, api, parts, *, timeout_s=None) -> memoryview:
        request = decode_produce(memoryview(b"".join(parts)))
        self.requests.append((node_id, [each.bucket_id for each in request.buckets]))
        try:
            async with asyncio.timeout(timeout_s):
                answers = [await self._take(node_id, each) for each in request.buckets]
        except TimeoutError:
            raise HeadwaterError("Links tell this in another way.") from None
        kept = [each for each in answers if each.bucket_id not in self.leaves_out]
        self.leaves_out.clear()
        return memoryview(pb.ProduceLogResponse(buckets_resp=kept).SerializeToString())

    async def _take(self, node_id, records) -> pb.ProduceLogBucketResponse:
        answer = pb.ProduceLogBucketResponse(bucket_id=records.bucket_id)
        try:
            wait = self.meet(node_id, records.bucket_id)
            if wait is not None:
                await wait
        except HeadwaterError as fault:
            answer.error_code, answer.error_message = fault.code, str(fault)
            return answer
        header = read_header(records.records)
        numbers = (records.bucket_id, header.writer_id, header.sequence)
        if numbers not in [each[:3] for each in self.taken]:
            self.taken.append((*numbers, header.record_count))
        answer.base_offset = 0
        return answer
