"""Whole protobuf messages, read from the body of a request."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from headwater.errors import CorruptBatchError

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
