"""Servers that answer fetches as they are told to, without a network."""

import asyncio
from collections.abc import Callable

from headwater.config.client import ClientSettings
from headwater.errors import HeadwaterError, LeaderMissingError
from headwater.model.bucket import TableBucket
from headwater.model.schema import Schema
from headwater.model.table import TableInfo
from headwater.read.offsets import Place
from headwater.runtime.clock import SystemClock
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import Api
from tests.clocks import loop_turns

Answer = Callable[[pb.FetchLogBucketRequest], pb.FetchLogBucketResponse]
IDLE_S = 0.01


class QuickRetries:
    """Hardly pause."""

    def backoff_s(self, failures: int) -> float:
        return 0.001 * failures


class ScriptedCluster:
    """Be as much of a cluster as a fetcher needs; `answers` tells what each bucket says."""

    def __init__(self, schemas: dict[int, Schema], **limits) -> None:
        self.settings = ClientSettings(**limits)
        self.clock = SystemClock()
        self.retries = QuickRetries()
        self.leaders: dict[TableBucket, int] = {}
        self.answers: dict[int, Answer] = {}
        self.broken: dict[int, HeadwaterError] = {}
        self.requests: list[tuple[int, pb.FetchLogTableRequest]] = []
        self.staled: list[TableBucket] = []
        self._schemas = schemas

    async def schema(self, _: TableInfo, schema_id: int) -> Schema:
        return self._schemas[schema_id]

    async def leader(self, bucket: TableBucket) -> int:
        if bucket not in self.leaders:
            raise LeaderMissingError("Nobody leads it.")
        return self.leaders[bucket]

    def stale(self, bucket: TableBucket) -> None:
        self.staled.append(bucket)

    async def call_node(self, node: int, _: Api, parts, *, timeout_s: float) -> memoryview:
        (table,) = pb.FetchLogRequest.FromString(b"".join(parts)).tables_req
        self.requests.append((node, table))
        await loop_turns()
        if node in self.broken:
            raise self.broken[node]
        buckets = [self.answers[each.bucket_id](each) for each in table.buckets_req]
        if not any(each.records or each.error_code for each in buckets):
            await asyncio.sleep(IDLE_S)
        answer = pb.FetchLogTableResponse(table_id=table.table_id, buckets_resp=buckets)
        return memoryview(pb.FetchLogResponse(tables_resp=[answer]).SerializeToString())

    def place(self, number: int, *, node: int) -> tuple[Place, TableBucket]:
        bucket = TableBucket(1, number)
        self.leaders[bucket] = node
        return Place(None, number), bucket


def serving(batches: dict[int, bytes]) -> Answer:
    """Answer with the batch at the asked offset, or with nothing."""

    def answer(asked: pb.FetchLogBucketRequest) -> pb.FetchLogBucketResponse:
        records = batches.get(asked.fetch_offset)
        return pb.FetchLogBucketResponse(bucket_id=asked.bucket_id, records=records)

    return answer


def failing(code: int, message: str = "no", **fields) -> Answer:
    """Answer with an error."""

    def answer(asked: pb.FetchLogBucketRequest) -> pb.FetchLogBucketResponse:
        return pb.FetchLogBucketResponse(
            bucket_id=asked.bucket_id, error_code=code, error_message=message, **fields
        )

    return answer
