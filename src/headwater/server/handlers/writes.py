"""What the answers to both kinds of writes share: each bucket succeeds or fails on its own."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Protocol, TypeVar

from headwater.errors import HeadwaterError, TimedOutError
from headwater.log.writers import NOBODY
from headwater.runtime.turns import gathered
from headwater.server.catalog.writer_ids import ANYBODY
from headwater.server.context import Context
from headwater.tablet.log_tablet import Sender
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.bucket_records import BucketRecords

_TAG_BYTES = 8
USERS_KEPT = 1024

BucketAnswer = pb.ProduceLogBucketResponse | pb.PutKvBucketResponse
Answer = TypeVar("Answer", pb.ProduceLogBucketResponse, pb.PutKvBucketResponse)


class WriteRequest(Protocol):
    """Be a request to write to buckets of one table."""

    @property
    def table_id(self) -> int:
        """Return the table."""

    @property
    def timeout_ms(self) -> int:
        """Return how long the rows may take to become durable."""


async def together(
    writes: Sequence[BucketRecords],
    write: Callable[[BucketRecords], Coroutine[object, object, Answer]],
) -> list[Answer]:
    """Return the answers to the writes of one request, in order; most requests have one."""
    if len(writes) == 1:
        return [await write(writes[0])]
    return await gathered(map(write, writes))


@contextmanager
def refusals(answer: BucketAnswer, request: WriteRequest, context: Context) -> Iterator[None]:
    """Put into the answer why a bucket was not written, if that is so."""
    try:
        yield
        return
    except HeadwaterError as fault:
        answer.error_code, answer.error_message = fault.code, str(fault)
    except TimeoutError:
        answer.error_code = TimedOutError.code
        answer.error_message = f"The rows were not durable after {request.timeout_ms} ms."
    is_put = isinstance(answer, pb.PutKvBucketResponse)
    api = ApiKey.PUT_KV if is_put else ApiKey.PRODUCE_LOG
    where = f"Bucket {answer.bucket_id} of table {request.table_id}"
    context.bucket_refused(api, answer.error_code, f"{where}: {answer.error_message}")


def user_of(context: Context) -> str:
    """Return who asks; nobody in particular where a server does not tell users apart."""
    principal = context.session.principal
    return principal if principal and context.services.logins is not None else ANYBODY


def sender_of(context: Context) -> Sender:
    """Return who writes, which ids of writers must belong to."""
    user = user_of(context)
    return Sender(partial(context.catalog.check_writer_id, owner=user), _tag_of(user))


@lru_cache(USERS_KEPT)
def _tag_of(user: str) -> int:
    """Return what stands for a user in the checkpoints of logs."""
    if user == ANYBODY:
        return NOBODY
    tag = hashlib.blake2b(user.encode(), digest_size=_TAG_BYTES).digest()
    return max(int.from_bytes(tag, "little"), NOBODY + 1)


def time_limit(request: WriteRequest) -> asyncio.Timeout:
    """Return the limit on how long a client waits for its rows to become durable."""
    return asyncio.timeout(max(request.timeout_ms, 1) / 1000)
