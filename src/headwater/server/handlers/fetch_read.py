"""Reading what a fetch asks for, within its limits."""

from dataclasses import dataclass

from headwater.errors import HeadwaterError
from headwater.server.handlers.fetch_plan import BucketFetch, TableFetch
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch_answer import BucketAnswer, TableAnswer

EARLIEST_OFFSET = -2


@dataclass(frozen=True, slots=True)
class Fetched:
    """Hold the answers for all buckets, and what they amount to."""

    answers: list[TableAnswer]

    @property
    def size(self) -> int:
        """Return the bytes of records."""
        return sum(bucket.size for table in self.answers for bucket in table.buckets)

    @property
    def has_moved(self) -> bool:
        """Tell whether a reader gets on without records, past batches that were pruned."""
        return any(
            bucket.fields.HasField("filtered_end_offset")
            for table in self.answers
            for bucket in table.buckets
        )

    @property
    def errors(self) -> list[tuple[int, str]]:
        """Return why buckets could not be read, by code and reason; nothing if all were."""
        fields = (bucket.fields for table in self.answers for bucket in table.buckets)
        return [(each.error_code, each.error_message) for each in fields if each.error_code]


async def read_fetch(tables: list[TableFetch], *, bytes_max: int) -> Fetched:
    """Read every bucket in turn; the first that has rows gets at least one batch."""
    size, answers = 0, []
    for table in tables:
        buckets = []
        for bucket in table.buckets:
            answer = await _read_bucket(bucket, left=max(bytes_max - size, 0), is_first=size == 0)
            size += answer.size
            buckets.append(answer)
        answers.append(TableAnswer(table.table_id, buckets))
    return Fetched(answers)


async def _read_bucket(bucket: BucketFetch, *, left: int, is_first: bool) -> BucketAnswer:
    fields = pb.FetchLogBucketResponse(bucket_id=bucket.asked.bucket_id)
    if bucket.asked.HasField("partition_id"):
        fields.partition_id = bucket.asked.partition_id
    tablet, selection = bucket.tablet, bucket.selection
    if tablet is None or selection is None:
        return _failed(fields, bucket.fault)
    end = tablet.high_watermark
    fields.high_watermark, fields.log_start_offset = end, tablet.start_offset
    asked = bucket.asked.fetch_offset
    offset = tablet.start_offset if asked == EARLIEST_OFFSET else asked
    if offset == end or not (left or is_first):
        return BucketAnswer(fields)
    try:
        selected = await tablet.select(
            offset,
            bytes_max=min(bucket.asked.max_fetch_bytes, left),
            selection=selection,
            at_least_one=is_first,
        )
    except HeadwaterError as fault:
        return _failed(fields, fault)
    if selected.pruned_up_to is not None:
        fields.filtered_end_offset = selected.pruned_up_to
    return BucketAnswer(fields, selected.parts)


def _failed(fields: pb.FetchLogBucketResponse, fault: HeadwaterError | None) -> BucketAnswer:
    assert fault is not None
    fields.error_code, fields.error_message = fault.code, str(fault)
    return BucketAnswer(fields)
