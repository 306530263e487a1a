"""Messages that are read in two ways, by protobuf where they are short and by hand where not."""

from collections.abc import Callable, Sequence
from functools import partial

from google.protobuf.message import Message

from headwater.errors import CorruptBatchError, RequestError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.lookup import BucketFound, decode_lookup_answer
from headwater.wire.messages import bytes_head
from headwater.wire.write import COPY_BYTES_MAX, decode_produce, decode_put
from tests.fuzz.edits import Edit, edited
from tests.fuzz.message_edits import message_edited
from tests.fuzz.request_seeds import seed_requests
from tests.fuzz.target import Target
from tests.fuzz.targets_rows import lookup_answers

_UNKNOWN_FIELD = 1000
_PAD = bytes_head(_UNKNOWN_FIELD, COPY_BYTES_MAX) + bytes(COPY_BYTES_MAX)

Read = Callable[[memoryview], object]


def read_twice(read: Read, data: bytes) -> None:
    """Read a message as it is, and with a field that nobody knows and that makes it long."""
    if len(data) > COPY_BYTES_MAX:
        return
    short, long = _outcome(read, data), _outcome(read, _PAD + data)
    assert short == long, f"{short} is not {long}"


def _outcome(read: Read, data: bytes) -> object:
    try:
        return read(memoryview(data))
    except (CorruptBatchError, RequestError):
        return "refused"


def _written(decode: Callable[[memoryview], object], view: memoryview) -> object:
    request = decode(view)
    fields = [getattr(request, name) for name in request.__slots__ if name != "buckets"]
    buckets = [(each.bucket_id, each.partition_id, bytes(each.records)) for each in request.buckets]
    return fields, buckets


def _found(view: memoryview) -> object:
    return [_plain(bucket) for bucket in decode_lookup_answer(view)]


def _plain(bucket: object) -> object:
    if not isinstance(bucket, BucketFound):
        return bucket
    values = bucket.values.to_list()
    return bucket.bucket_id, bucket.partition_id, values, bucket.counts.tolist()


def seeds_of(kind: type[Message]) -> list[bytes]:
    requests = [request for request in seed_requests() if isinstance(request, kind)]
    return [request.SerializeToString() for request in requests]


def message_of(kind: type[Message], data: bytes, edits: Sequence[Edit]) -> bytes:
    return message_edited(kind, data, edits, inner=lambda _, old, edit: edited(old, [edit]))


def of_message(
    name: str, kind: type[Message], read: Read, seeds: Callable[[], list[bytes]]
) -> Target:
    change = partial(message_of, kind)
    return Target(name, partial(read_twice, read), seeds, (), change)


TARGETS = (
    of_message(
        "requests to append",
        pb.ProduceLogRequest,
        partial(_written, decode_produce),
        partial(seeds_of, pb.ProduceLogRequest),
    ),
    of_message(
        "requests to put",
        pb.PutKvRequest,
        partial(_written, decode_put),
        partial(seeds_of, pb.PutKvRequest),
    ),
    of_message("long answers to lookups", pb.LookupResponse, _found, lookup_answers),
)
