"""The log record batch: its header, iteration, and stamping.

Layout, little endian. The checksum excludes everything before it, so the server can stamp offset
and timestamp without computing it again:

    0 base_offset i64 | 8 length i32 | 12 magic u8 | 13 commit_timestamp i64 | 21 crc u32
    25 schema_id i16 | 27 attributes u8 | 28 last_offset_delta i32 | 32 writer_id i64
    40 sequence i32 | 44 record_count i32 | [48 statistics_length i32, statistics] (magic 1)
    [parts_length i32, parts] (joined) | [offsets_length i32, offsets] (sparse)
    [one change type per record, unless append-only] | one Arrow record batch message

Attributes: bit 0 means append-only. Bit 7, which only this server sets and only clients see that
ask for it, means that the batch was joined from several (`rows/join`). Bit 6, which is never
stored, means that rows were taken out for a reader, and the offsets of the others follow: an i32
for each, counted from the base offset.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from headwater.errors import CorruptBatchError
from headwater.rows.row_bytes import crc32c, crc32c_of_parts

HEADER = struct.Struct("<qiBqIhBiqii")
HEADER_BYTES = HEADER.size
LENGTH_END = 12
CRC_START = 21
CRC_END = 25
MAGIC_PLAIN = 0
MAGIC_STATISTICS = 1
APPEND_ONLY = 1
JOINED = 0x80
SPARSE = 0x40
NO_WRITER = -1
NO_SEQUENCE = -1
_SECTION_LENGTH = struct.Struct("<i")
_OFFSET = np.dtype("<i4")
_STAMP_OFFSET = struct.Struct("<q")
_CRC = struct.Struct("<I")


class ChangeType(IntEnum):
    """What a changelog record does, numbered as on the wire."""

    APPEND = 0
    INSERT = 1
    UPDATE_BEFORE = 2
    UPDATE_AFTER = 3
    DELETE = 4


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of a batch."""

    base_offset: int
    length: int
    magic: int
    commit_timestamp: int
    crc: int
    schema_id: int
    attributes: int
    last_offset_delta: int
    writer_id: int
    sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, including the header."""
        return LENGTH_END + self.length

    @property
    def end_offset(self) -> int:
        """The offset after the last record; an empty batch also takes one offset."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_append_only(self) -> bool:
        """Tell whether the batch has no change types."""
        return bool(self.attributes & APPEND_ONLY)

    @property
    def is_joined(self) -> bool:
        """Tell whether the batch was joined from several."""
        return bool(self.attributes & JOINED)

    @property
    def is_sparse(self) -> bool:
        """Tell whether rows were taken out of the batch."""
        return bool(self.attributes & SPARSE)


@dataclass(frozen=True, slots=True)
class BatchSections:
    """Byte ranges of a batch after its header, relative to its start."""

    statistics_start: int
    statistics_end: int
    parts_start: int
    parts_end: int
    changes_start: int
    changes_end: int


def read_header(data: bytes | memoryview, position: int = 0) -> BatchHeader:
    """Parse and check the header at a position."""
    if len(data) - position < HEADER_BYTES:
        raise CorruptBatchError(f"A record batch ends inside its header at byte {position}.")
    header = BatchHeader(*HEADER.unpack_from(data, position))
    if header.magic not in (MAGIC_PLAIN, MAGIC_STATISTICS):
        raise CorruptBatchError(f"Unknown record batch version {header.magic} at byte {position}.")
    smallest, size = HEADER_BYTES + (_SECTION_LENGTH.size if header.magic else 0), header.size
    if size < smallest:
        raise CorruptBatchError(f"A record batch at byte {position} has {size} bytes.")
    is_whole = header.last_offset_delta == max(header.record_count - 1, 0)
    is_short = header.is_sparse and header.last_offset_delta >= header.record_count - 1
    if header.record_count < 0 or not (is_whole or is_short):
        raise CorruptBatchError(
            f"A record batch has {header.record_count} records, but a last offset delta of "
            f"{header.last_offset_delta}."
        )
    return header


def read_sections(data: bytes | memoryview, header: BatchHeader) -> BatchSections:
    """Locate what comes before the Arrow message of a batch that starts at byte 0 of `data`."""
    start, end = read_statistics_section(data, header)
    parts_start = parts_end = end
    if header.is_joined:
        parts_start, parts_end = _section(data, end, header, what="parts")
    changes_start = parts_end
    if header.is_sparse:
        _, changes_start = _section(data, parts_end, header, what="offsets")
    changes_end = changes_start if header.is_append_only else changes_start + header.record_count
    if changes_end > header.size:
        raise CorruptBatchError("A record batch ends inside its change types.")
    return BatchSections(start, end, parts_start, parts_end, changes_start, changes_end)


def read_offsets(batch: bytes | memoryview, header: BatchHeader) -> npt.NDArray[np.int64]:
    """Return the offset of every row of a batch that starts at byte 0."""
    base = header.base_offset
    if not header.is_sparse:
        return np.arange(base, base + header.record_count)
    end = read_sections(batch, header).changes_start
    start = end - header.record_count * _OFFSET.itemsize
    found = np.frombuffer(bytes(memoryview(batch)[max(start, 0) : end]), _OFFSET)
    is_rising = bool((np.diff(found) > 0).all())
    if len(found) != header.record_count or not is_rising or not _within(found, header):
        raise CorruptBatchError("The offsets of a record batch do not match its header.")
    return found.astype(np.int64) + base


def _within(offsets: npt.NDArray[np.int32], header: BatchHeader) -> bool:
    return not len(offsets) or (offsets[0] >= 0 and offsets[-1] <= header.last_offset_delta)


def read_statistics_section(data: bytes | memoryview, header: BatchHeader) -> tuple[int, int]:
    """Locate the statistics of a batch, of which only the first bytes need to be there."""
    if header.magic != MAGIC_STATISTICS:
        return HEADER_BYTES, HEADER_BYTES
    return _section(data, HEADER_BYTES, header, what="statistics")


def _section(
    data: bytes | memoryview, position: int, header: BatchHeader, *, what: str
) -> tuple[int, int]:
    """Return where a section begins and ends, given the position of its length."""
    start = position + _SECTION_LENGTH.size
    if start > min(header.size, len(data)):
        raise CorruptBatchError(f"A record batch ends before its {what}.")
    (length,) = _SECTION_LENGTH.unpack_from(data, position)
    if not 0 <= length <= header.size - start:
        raise CorruptBatchError(f"A record batch declares {length} bytes of {what}.")
    return start, start + length


def iterate(data: bytes | memoryview) -> Iterator[tuple[BatchHeader, int]]:
    """Yield the header and the position of every complete batch in `data`."""
    position = 0
    while position < len(data):
        header = read_header(data, position)
        size = header.size
        if position + size > len(data):
            raise CorruptBatchError(
                f"A record batch of {size} bytes at byte {position}"
                f" ends after the {len(data)} bytes that were sent."
            )
        yield header, position
        position += size


def check_crc(batch: bytes | memoryview, header: BatchHeader) -> None:
    """Reject a batch whose checksum does not match its bytes."""
    actual = crc32c(memoryview(batch)[CRC_END : header.size])
    if actual != header.crc:
        raise CorruptBatchError(
            f"A record batch has the checksum {actual:#010x}, but its header says "
            f"{header.crc:#010x}.",
            hint="The batch was damaged in transit or on disk.",
        )


def stamped(batch: bytes | memoryview, *, base_offset: int, timestamp_ms: int) -> list[memoryview]:
    """Overwrite offset and timestamp of a batch; return it as parts without copying the payload."""
    view = memoryview(batch)
    head = b"".join(
        (
            _STAMP_OFFSET.pack(base_offset),
            view[8:13],
            _STAMP_OFFSET.pack(timestamp_ms),
        )
    )
    return [memoryview(head), view[CRC_START:]]


def build_batch(  # noqa: PLR0913 - one argument per header field
    message: bytes | memoryview,
    *,
    schema_id: int,
    record_count: int,
    writer_id: int = NO_WRITER,
    sequence: int = NO_SEQUENCE,
    statistics: bytes | None = None,
    parts: bytes | None = None,
    offsets: Sequence[int] | None = None,
    changes: bytes | None = None,
    base_offset: int = 0,
    end_offset: int | None = None,
    timestamp_ms: int = 0,
) -> bytes:
    """Build a batch around an Arrow message; without change types it is append-only.

    One whose rows are not all there has offsets, counted from its base, and an end.
    """
    body: list[bytes | memoryview] = [changes or b"", message]
    if offsets is not None:
        packed = np.asarray(offsets, _OFFSET).tobytes()
        body[:0] = [_SECTION_LENGTH.pack(len(packed)), packed]
    if parts is not None:
        body[:0] = [_SECTION_LENGTH.pack(len(parts)), parts]
    if statistics is not None:
        body[:0] = [_SECTION_LENGTH.pack(len(statistics)), statistics]
    length = HEADER_BYTES - LENGTH_END + sum(map(len, body))
    head = HEADER.pack(
        base_offset,
        length,
        MAGIC_PLAIN if statistics is None else MAGIC_STATISTICS,
        timestamp_ms,
        0,
        schema_id,
        (APPEND_ONLY if changes is None else 0)
        | (0 if parts is None else JOINED)
        | (0 if offsets is None else SPARSE),
        max(record_count - 1, 0) if end_offset is None else end_offset - base_offset - 1,
        writer_id,
        sequence,
        record_count,
    )
    crc = crc32c_of_parts([head[CRC_END:], *body])
    return b"".join((head[:CRC_START], _CRC.pack(crc), head[CRC_END:], *body))
