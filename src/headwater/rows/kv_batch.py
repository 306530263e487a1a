"""The KV record batch, in which clients send rows of primary-key tables.

Layout, little endian. A record without row bytes deletes its key:

    0 length i32 | 4 magic u8 | 5 crc u32 | 9 schema_id i16 | 11 attributes u8
    12 writer_id i64 | 20 sequence i32 | 24 record_count i32
    per record: length i32 | key length varint | key | row
"""

import struct
from dataclasses import dataclass

import numpy as np

from headwater.errors import CorruptBatchError
from headwater.rows import row_bytes
from headwater.rows.compacted.forms import Origin
from headwater.rows.compacted.row import RowCursor, WordRun, joined
from headwater.rows.compacted.varint import spread_varints

HEADER = struct.Struct("<iBIhBqii")
HEADER_BYTES = HEADER.size
MAGIC = 0
NO_WRITER = -1
NO_SEQUENCE = -1
RECORD_BYTES_MIN = 5
_LENGTH = struct.Struct("<i")
_LENGTH_BYTES = _LENGTH.size
_SEVEN_BITS = 0x7F
_CRC_START = 5
_CRC_END = 9
_CRC = struct.Struct("<I")
_ORIGIN = Origin("key length")


@dataclass(frozen=True, slots=True)
class KvBatchHeader:
    """The header of a KV batch; the size is that of the whole batch."""

    size: int
    crc: int
    schema_id: int
    attributes: int
    writer_id: int
    batch_sequence: int
    record_count: int


@dataclass(frozen=True, slots=True, eq=False)
class KvRecords:
    """Keys and rows of records, which of them delete, and where each record starts."""

    keys: row_bytes.RowBytes
    rows: row_bytes.RowBytes
    is_delete: row_bytes.Mask
    starts: row_bytes.Longs


def read_kv_header(view: memoryview) -> KvBatchHeader:
    """Parse and check the header of a batch that fills the view."""
    if len(view) < HEADER_BYTES:
        raise CorruptBatchError(f"A KV batch of {len(view)} bytes ends inside its header.")
    length, magic, crc, schema_id, attributes, *rest = HEADER.unpack_from(view)
    writer_id, sequence, record_count = rest
    if magic != MAGIC:
        raise CorruptBatchError(f"Unknown KV batch version {magic}.")
    size = _LENGTH_BYTES + length
    if size < HEADER_BYTES or size != len(view):
        raise CorruptBatchError(f"A KV batch declares {size} bytes, but {len(view)} were sent.")
    if not 0 <= record_count <= (size - HEADER_BYTES) // RECORD_BYTES_MIN:
        raise CorruptBatchError(f"A KV batch of {size} bytes declares {record_count} records.")
    return KvBatchHeader(size, crc, schema_id, attributes, writer_id, sequence, record_count)


def check_kv_crc(view: memoryview, header: KvBatchHeader) -> None:
    """Reject a batch whose checksum does not match its bytes."""
    actual = row_bytes.crc32c(view[_CRC_END : header.size])
    if actual != header.crc:
        raise CorruptBatchError(
            f"A KV batch has the checksum {actual:#010x}, but its header says {header.crc:#010x}.",
            hint="The batch was damaged in transit.",
        )


def read_kv_records(view: memoryview, header: KvBatchHeader) -> KvRecords:
    """Find the key and row of every record; together the records fill the batch.

    The bytes are copied once, so the view may be released.
    """
    data = np.zeros(header.size + row_bytes.PADDING, np.uint8)
    data[: header.size] = np.frombuffer(view, np.uint8, header.size)
    bounds = _record_bounds(data, header)
    starts, ends = bounds[:-1], bounds[1:]
    cursor = RowCursor(data, at=starts + _LENGTH_BYTES, ends=ends, origin=_ORIGIN)
    keys = cursor.spans() if len(starts) else row_bytes.RowBytes(data, starts, ends)
    rows = row_bytes.RowBytes(data, keys.ends, ends)
    return KvRecords(keys, rows, rows.starts == rows.ends, starts)


def build_kv_batch(
    keys: row_bytes.RowBytes,
    rows: row_bytes.RowBytes,
    *,
    schema_id: int,
    writer_id: int = NO_WRITER,
    sequence: int = NO_SEQUENCE,
    is_delete: row_bytes.Mask | None = None,
) -> bytes:
    """Build a batch of one record per key; a row that deletes is left out."""
    body = build_kv_body(keys, rows, is_delete=is_delete)
    return frame_kv_batch(
        body, schema_id=schema_id, record_count=len(keys), writer_id=writer_id, sequence=sequence
    )


def build_kv_body(
    keys: row_bytes.RowBytes, rows: row_bytes.RowBytes, *, is_delete: row_bytes.Mask | None = None
) -> bytes:
    """Build one record per key; bodies may be joined."""
    if is_delete is not None:
        rows = row_bytes.RowBytes(
            rows.data, rows.starts, np.where(is_delete, rows.starts, rows.ends)
        )
    data, _ = build_records(keys, rows)
    return data[: len(data) - row_bytes.PADDING].tobytes()


def build_kv_record(key: bytes, row: bytes) -> bytes:
    """Build a single record, without the cost of arrays."""
    head, rest = bytearray(), len(key)
    while rest > _SEVEN_BITS:
        head.append(rest & _SEVEN_BITS | _SEVEN_BITS + 1)
        rest >>= 7
    head.append(rest)
    return b"".join((_LENGTH.pack(len(head) + len(key) + len(row)), head, key, row))


def frame_kv_batch(
    body: bytes, *, schema_id: int, record_count: int, writer_id: int, sequence: int
) -> bytes:
    """Put a header before records."""
    length = HEADER_BYTES - _LENGTH_BYTES + len(body)
    head = HEADER.pack(length, MAGIC, 0, schema_id, 0, writer_id, sequence, record_count)
    crc = row_bytes.crc32c_of_parts([head[_CRC_END:], body])
    return b"".join((head[:_CRC_START], _CRC.pack(crc), head[_CRC_END:], body))


def build_records(
    keys: row_bytes.RowBytes, rows: row_bytes.RowBytes
) -> tuple[row_bytes.Bytes, row_bytes.Longs]:
    """Build consecutive records, with padding after them, and where each starts."""
    if not len(keys):
        return np.zeros(row_bytes.PADDING, np.uint8), np.zeros(0, np.int64)
    key_lengths = spread_varints(keys.lengths.view(np.uint64))
    sizes = key_lengths.head_lengths + keys.lengths + rows.lengths
    head = WordRun(len(keys))
    head.add(sizes.view(np.uint64), _LENGTH_BYTES)
    head.add(key_lengths.heads, key_lengths.head_lengths)
    records = joined([head.to_arrow(), keys.to_arrow(), rows.to_arrow()])
    return records.data, records.starts


def _record_bounds(data: row_bytes.Bytes, header: KvBatchHeader) -> row_bytes.Longs:
    """Find the start of every record, and the end of the last."""
    bounds = _even_bounds(data, header)
    if bounds is None:
        bounds = _chained_bounds(data, header)
    if bounds[-1] != header.size:
        raise CorruptBatchError(
            f"The {header.record_count} records of a KV batch end at byte {bounds[-1]}"
            f" of {header.size}."
        )
    return bounds


def _even_bounds(data: row_bytes.Bytes, header: KvBatchHeader) -> row_bytes.Longs | None:
    """Return the bounds if all records have the same length, as those of fixed width do."""
    body = header.size - HEADER_BYTES
    if not header.record_count or body % header.record_count:
        return None
    size = body // header.record_count
    bounds = np.arange(header.record_count + 1, dtype=np.int64) * size + HEADER_BYTES
    lengths = row_bytes.overlapping(data, np.int32)[bounds[:-1]]
    return bounds if bool((lengths == size - _LENGTH_BYTES).all()) else None


def _chained_bounds(data: row_bytes.Bytes, header: KvBatchHeader) -> row_bytes.Longs:
    """Follow the lengths from record to record; this loop is hot, so it checks later."""
    unpack, view, position = _LENGTH.unpack_from, data.data, HEADER_BYTES
    places = [position]
    add = places.append
    try:
        for _ in range(header.record_count):
            position += unpack(view, position)[0] + _LENGTH_BYTES
            add(position)
    except struct.error:
        raise CorruptBatchError(f"A KV batch has no record at byte {position}.") from None
    bounds = np.array(places, np.int64)
    if (np.diff(bounds) < RECORD_BYTES_MIN).any():
        raise CorruptBatchError("A record of a KV batch is too short for a key.")
    return bounds
