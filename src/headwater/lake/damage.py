"""Telling files of a lake that are damaged from those that cannot be reached."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from headwater.errors import CorruptFileError

_UNREADABLE: tuple[type[Exception], ...] = (
    ValueError,  # as are those of JSON, of UTF-8 and of pydantic
    LookupError,
    EOFError,
    TypeError,
    OverflowError,
    SystemError,
    struct.error,
    zlib.error,
)
# What pyarrow says of bytes that are not what was written; it has no error of its own for that.
_SIGNS = ("CRC checksum", "thrift", "orrupt", "Unexpected end of stream", "Malformed")


@contextmanager
def read_whole(path: str) -> Iterator[None]:
    """Say of a Parquet file that it is damaged, where reading it shows that."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as fault:
        raise _damaged(path, fault) from fault
    except OSError as fault:
        if any(sign in str(fault) for sign in _SIGNS):
            raise _damaged(path, fault) from fault
        raise


def check_count(path: str, count: int, *, expected: int) -> None:
    """Compare with the rows that were written: what heads a page has no checksum."""
    if count != expected:
        raise CorruptFileError(
            f"The data file {path} is damaged: it gives {count} rows of {expected}.",
            hint="Restore it from a copy; `headwater audit --deep` finds all that are damaged.",
        )


@contextmanager
def decoded(what: str, *also: type[Exception]) -> Iterator[None]:
    """Say of metadata that it is damaged, where a library stumbles over it in its own way."""
    unreadable: tuple[type[Exception], ...] = (*_UNREADABLE, *also)
    try:
        yield
    except unreadable as fault:
        if isinstance(fault, OSError):  # An answer of a catalog over HTTP may be both.
            raise
        raise CorruptFileError(
            f"The metadata of {what} cannot be read: {type(fault).__name__}: {fault}.",
            hint="Restore the files of its metadata from a copy; `headwater audit` names them.",
        ) from fault


def _damaged(path: str, fault: Exception) -> CorruptFileError:
    reason = str(fault).splitlines() or [type(fault).__name__]
    return CorruptFileError(
        f"The data file {path} is damaged: {reason[0].rstrip('.')}.",
        hint="Restore it from a copy; `headwater audit --deep` finds all that are damaged.",
    )
