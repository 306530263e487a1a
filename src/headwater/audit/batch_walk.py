"""The batches of one bucket's log as a server sends them, with what cannot be read left out."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from headwater.audit.bucket import AuditedBucket
from headwater.client.reading.fetch_request import FetchSize, fetch_request
from headwater.client.reading.followed import Followed
from headwater.client.reading.log_reader import StoredBatch, stored_batches
from headwater.client.reading.remote_log import with_records
from headwater.client.reading.view import View
from headwater.errors import (
    HeadwaterError,
    OffsetOutOfRangeError,
    RemoteLogError,
    StorageError,
    TimedOutError,
    error_of_code,
    moves_leader,
)
from headwater.model.bucket import OffsetRange
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.fetch_answer import BucketAnswer, decode_fetch_answer

# What was damaged on its way is whole the next time, what was damaged on disk is not.
DAMAGED_READS_MAX = 3
_FETCH_LOG = API_OF_REQUEST[pb.FetchLogRequest]


@dataclass(frozen=True, slots=True, eq=False)
class Unreadable:
    """Say which offsets cannot be read, and why."""

    offsets: OffsetRange
    fault: HeadwaterError


class BatchWalk:
    """Read a log batch by batch; the next answer is on its way while the last is looked at."""

    def __init__(self, audited: AuditedBucket) -> None:
        self._cluster = audited.cluster
        self._audited = audited
        self._view = View.of(audited.table)
        self._size = FetchSize.of(audited.cluster.settings)

    async def parts(
        self, wanted: OffsetRange
    ) -> AsyncGenerator[list[StoredBatch] | Unreadable, None]:
        """Yield the batches that hold some offsets, and between them what cannot be read."""
        offset, reading = wanted.start, None
        try:
            while offset < wanted.end:
                reading = reading or self._begun(offset)
                found, reading = await self._read(reading, OffsetRange(offset, wanted.end)), None
                if isinstance(found, Unreadable):
                    offset = found.offsets.end
                else:
                    offset = max(offset + 1, found[-1].header.end_offset)
                    reading = self._begun(offset) if offset < wanted.end else None
                yield found
        finally:
            if reading is not None:
                reading.cancel()

    def _begun(self, offset: int) -> asyncio.Task[list[StoredBatch]]:
        return asyncio.get_running_loop().create_task(self._fetch(offset))

    async def _read(
        self, reading: asyncio.Task[list[StoredBatch]], wanted: OffsetRange
    ) -> list[StoredBatch] | Unreadable:
        try:
            came = await reading
            # What was written since the end was chosen is not wanted; the first batch, if it is
            # one of those, tells of a gap.
            return [each for each in came if each.header.base_offset < wanted.end] or came[:1]
        except (OffsetOutOfRangeError, StorageError, RemoteLogError) as fault:
            start = await self._audited.offset("earliest")
            if start > wanted.start:
                # Retention was faster.
                gone = OffsetOutOfRangeError(fault.message, hint=fault.hint)
                return Unreadable(OffsetRange(wanted.start, min(start, wanted.end)), gone)
            if isinstance(fault, OffsetOutOfRangeError):
                raise
            end = await self._next_readable(wanted)
            return Unreadable(OffsetRange(wanted.start, end), fault)

    # ---- around damage

    async def _next_readable(self, wanted: OffsetRange) -> int:
        """Return the first offset behind damage: leap until one can be read, then close in."""
        low, leap = wanted.start, 1
        while True:
            high = min(wanted.start + leap, wanted.end)
            if high == wanted.end or await self._is_readable(high):
                break
            low, leap = high, leap * 2
        while high - low > 1:
            middle = (low + high) // 2
            if await self._is_readable(middle):
                high = middle
            else:
                low = middle
        return high

    async def _is_readable(self, offset: int) -> bool:
        try:
            await self._fetch(offset, damaged_reads_max=1)
        except (OffsetOutOfRangeError, StorageError, RemoteLogError):
            return False
        return True

    # ---- asking

    async def _fetch(
        self, offset: int, *, damaged_reads_max: int = DAMAGED_READS_MAX
    ) -> list[StoredBatch]:
        """Return whole batches from the one that holds an offset, however often that is tried."""
        cluster, failures = self._cluster, 0
        deadline = cluster.clock.monotonic() + cluster.settings.deadline_s
        while True:
            try:
                return await self._fetch_once(offset)
            except HeadwaterError as fault:
                failures += 1
                if moves_leader(fault):
                    cluster.stale(self._audited.bucket)
                is_damaged = isinstance(fault, StorageError) and failures >= damaged_reads_max
                is_late = cluster.clock.monotonic() >= deadline
                if is_damaged or is_late or not fault.retriable:
                    raise
            await cluster.clock.sleep(cluster.retries.backoff_s(failures))

    async def _fetch_once(self, offset: int) -> list[StoredBatch]:
        audited = self._audited
        asked = Followed(
            place=audited.place,
            bucket=audited.bucket,
            position=offset,
            next_offset=offset,
            projects=False,
        )
        request = fetch_request(self._view, [asked], size=self._size, wait_ms=0, projects=False)
        body = await self._cluster.call_leader(
            audited.bucket, _FETCH_LOG, [request.SerializeToString()]
        )
        answers = [bucket for table in decode_fetch_answer(body) for bucket in table.buckets]
        batches = await self._batches(answers[0], offset) if answers else []
        if not batches:
            raise TimedOutError(f"{audited.bucket} has an offset {offset}, and does not give it.")
        return batches

    async def _batches(self, answer: BucketAnswer, offset: int) -> list[StoredBatch]:
        fields = answer.fields
        if fields.error_code:
            raise error_of_code(fields.error_code, fields.error_message)
        chunk_bytes = self._size.share_of(1)
        full = await with_records(answer, offset=offset, chunk_bytes=chunk_bytes)
        return stored_batches(full.records)
