"""Whole protobuf messages, read from the body of a request."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from headwater.errors import CorruptBatchError, RequestError

M = TypeVar("M", bound=Message)


def decode_message(kind: type[M], body: bytes, *, api: str) -> M:
    """Read a message with all of its required fields, or say that the body is malformed."""
    try:
        message = kind.FromString(body)
    except DecodeError as fault:
        raise CorruptBatchError(f"The body of {api} is malformed: {fault}.") from None
    if not message.IsInitialized():
        raise CorruptBatchError(f"The body of {api} lacks a required field.")
    return message


class _OfBucket(Protocol):
    """Be the part of a request that is about one bucket."""

    @property
    def bucket_id(self) -> int:
        """Return the bucket."""

    @property
    def partition_id(self) -> int | None:
        """Return the partition, if there are any."""


def refuse_repeated(buckets: Sequence[_OfBucket], *, api: str) -> None:
    """Refuse a request that names a bucket twice: Apache Fluss would answer for one of the two."""
    if len(buckets) == 1:
        return
    if len({(each.partition_id, each.bucket_id) for each in buckets}) < len(buckets):
        raise RequestError(
            f"{api} names a bucket more than once.",
            hint="Put everything that is for one bucket into one entry.",
        )
