"""Reading what a fetch asks for, within its limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from headwater.errors import HeadwaterError
from headwater.model.lineage import UNKNOWN, Lineage
from headwater.runtime.turns import in_turns
from headwater.server.fan_out import SharedReads
from headwater.server.handlers.fetch_plan import BucketFetch, FaultyBucket, TableFetch
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch_answer import BucketAnswer, EncodedBucket, EncodedTable, encode_bucket

EARLIEST_OFFSET = -2


@dataclass(frozen=True, slots=True)
class Fetched:
    """Hold the answers for all buckets, and what they amount to."""

    tables: Sequence[EncodedTable]

    @property
    def size(self) -> int:
        """Return the bytes of records."""
        return sum(bucket.records_size for _, buckets in self.tables for bucket in buckets)

    @property
    def has_moved(self) -> bool:
        """Tell whether a reader gets on without records, past batches that were pruned."""
        return any(bucket.has_moved for _, buckets in self.tables for bucket in buckets)

    @property
    def errors(self) -> list[tuple[int, str]]:
        """Return why buckets could not be read, by code and reason; nothing if all were."""
        return [bucket.error for _, buckets in self.tables for bucket in buckets if bucket.error]


async def read_fetch(tables: list[TableFetch], reads: SharedReads, *, bytes_max: int) -> Fetched:
    """Read every bucket in turn; the first that has rows gets at least one batch."""
    size, answers = 0, []
    for table in tables:
        buckets = []
        async for bucket in in_turns(table.buckets):
            if isinstance(bucket, FaultyBucket):
                answer = _failed(_fields(bucket.asked), bucket.fault)
            else:
                left, is_first = max(bytes_max - size, 0), size == 0
                answer = await _read_bucket(bucket, reads, left=left, is_first=is_first)
            size += answer.records_size
            buckets.append(answer)
        answers.append((table.table_id, buckets))
    return Fetched(answers)


async def _read_bucket(
    bucket: BucketFetch, reads: SharedReads, *, left: int, is_first: bool
) -> EncodedBucket:
    """Answer with what others have read, or read it.

    The name of a read is everything that its answer depends on.
    """
    tablet = bucket.tablet
    end, start = tablet.high_watermark, tablet.start_offset
    asked = bucket.asked.fetch_offset
    offset = start if asked == EARLIEST_OFFSET else asked
    try:
        tablet.check_same(offset, bucket.asked.incarnation)
    except HeadwaterError as fault:
        return _failed(_fields(bucket.asked, start, end), fault)
    if offset == end or not (left or is_first):
        nothing = (bucket.bucket, start, end, offset)
        return reads.find(nothing) or reads.keep(
            nothing, encode_bucket(BucketAnswer(_told_fields(bucket, offset, (start, end))))
        )
    bytes_max = min(bucket.asked.max_fetch_bytes, left)
    name = (bucket.bucket, start, end, offset, bytes_max, is_first, bucket.taken)
    if (found := reads.find(name)) is not None:
        return found
    read = partial(_read, bucket, offset, (start, end), bytes_max=bytes_max, is_first=is_first)
    try:
        if tablet.selects_at_once(offset, bytes_max=bytes_max, selection=bucket.selection):
            return reads.keep(name, await read())
        return await reads.once(name, read)
    except HeadwaterError as fault:
        return _failed(_fields(bucket.asked, start, end), fault)


async def _read(
    bucket: BucketFetch, offset: int, bounds: tuple[int, int], *, bytes_max: int, is_first: bool
) -> EncodedBucket:
    selected = await bucket.tablet.select(
        offset,
        up_to=bounds[1],
        bytes_max=bytes_max,
        selection=bucket.selection,
        at_least_one=is_first,
    )
    fields = _told_fields(bucket, offset, bounds)
    if selected.pruned_up_to is not None:
        fields.filtered_end_offset = selected.pruned_up_to
    return encode_bucket(BucketAnswer(fields, selected.parts))


def _tell_lineage(fields: pb.FetchLogBucketResponse, lineage: Lineage, offset: int) -> None:
    incarnation = lineage.writer_before(offset)
    if incarnation != UNKNOWN:
        fields.incarnation = incarnation
    for start in lineage.between(offset, fields.high_watermark):
        fields.starts.extend((start.offset, start.incarnation))


def _told_fields(
    bucket: BucketFetch, offset: int, bounds: tuple[int, int]
) -> pb.FetchLogBucketResponse:
    fields = _fields(bucket.asked, *bounds)
    _tell_lineage(fields, bucket.tablet.log.lineage, offset)
    return fields


def _fields(
    asked: pb.FetchLogBucketRequest, start: int | None = None, end: int | None = None
) -> pb.FetchLogBucketResponse:
    fields = pb.FetchLogBucketResponse(
        bucket_id=asked.bucket_id, log_start_offset=start, high_watermark=end
    )
    if asked.HasField("partition_id"):
        fields.partition_id = asked.partition_id
    return fields


def _failed(fields: pb.FetchLogBucketResponse, fault: HeadwaterError) -> EncodedBucket:
    fields.error_code, fields.error_message = fault.code, str(fault)
    return encode_bucket(BucketAnswer(fields))
