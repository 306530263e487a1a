"""Known places in a segment, from which it can be read and checked."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.errors import CorruptFileError
from headwater.rows.checksum import crc32c
from headwater.rows.log_batch import CRC_END

_MARK = struct.Struct("<qqqI")
_COUNT = struct.Struct("<I")
_CHAIN = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Mark:
    """Hold the place where one batch ends and the next begins.

    `timestamp_ms` is the highest commit timestamp before the place. `chain` covers the headers
    since the mark before, because a batch's own checksum leaves out what the server stamps.
    """

    offset: int
    position: int
    timestamp_ms: int
    chain: int = 0


def extend_chain(chain: int, head: bytes) -> int:
    """Return the chain after one more batch header."""
    return crc32c(_CHAIN.pack(chain) + head[:CRC_END])


def covering(marks: Sequence[Mark], tail: Mark) -> tuple[Mark, ...]:
    """Return the marks up to a tail and the tail itself, each place once.

    A tail that nothing was written behind since it was marked says nothing of the headers before
    it: the mark does.
    """
    before = [mark for mark in marks if mark.position < tail.position]
    same = [mark for mark in marks if 0 < mark.position == tail.position]
    return (*before, *(same[:1] or [tail]))


def fits(mark: Mark, found: Mark) -> bool:
    """Tell whether a mark is what was found at its place; a chain of 0 is not known."""
    return mark == (found if mark.chain else replace(found, chain=0))


def encode_marks(marks: Sequence[Mark]) -> bytes:
    """Write marks behind their count."""
    packed = (
        _MARK.pack(mark.offset, mark.position, mark.timestamp_ms, mark.chain) for mark in marks
    )
    return b"".join((_COUNT.pack(len(marks)), *packed))


def decode_marks(data: bytes, position: int) -> tuple[tuple[Mark, ...], int]:
    """Read marks and return them with the position behind them."""
    start = position + _COUNT.size
    if start > len(data):
        raise CorruptFileError("A list of marks ends before its count.")
    (count,) = _COUNT.unpack_from(data, position)
    end = start + count * _MARK.size
    if count == 0 or end > len(data):
        raise CorruptFileError(f"A list of {count} marks does not fit its file.")
    return tuple(Mark(*fields) for fields in _MARK.iter_unpack(data[start:end])), end
