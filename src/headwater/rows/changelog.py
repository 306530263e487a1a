"""Changelog batches that the server makes: rows with their change types.

A changelog batch is not what its writer sent, so its own checksum cannot show whether a request is
sent again. It carries the checksum of the request as well: after the metadata of its Arrow message,
where Arrow readers see padding, or, if nothing changed, after its header.
"""

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptBatchError
from headwater.rows import log_batch
from headwater.rows.join import original_headers
from headwater.rows.message import PLAIN_BYTES_MAX, MessageWriter

_SENT = struct.Struct("<8sII")
_SENT_MAGIC = b"HWSENT\x00\x01"
# Before the metadata of an Arrow message: a marker, and its length.
_PREFIX = struct.Struct("<Ii")
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


def build_changelog(
    rows: pa.RecordBatch | None,
    types: npt.NDArray[np.uint8],
    *,
    schema_id: int,
    writer: tuple[int, int],
    codec: pa.Codec | None,
    checksum: int = 0,
) -> bytes:
    """Build a batch for the log; without changes it only carries writer and sequence.

    The checksum is that of the request; a batch without a writer has none.
    """
    message: bytes | memoryview = b""
    if rows is not None and len(types):
        message = MessageWriter(rows.schema, codec).write(rows, plain_bytes_max=PLAIN_BYTES_MAX)
    return frame_changelog(message, types, schema_id=schema_id, writer=writer, checksum=checksum)


def frame_changelog(
    message: bytes | memoryview,
    types: npt.NDArray[np.uint8],
    *,
    schema_id: int,
    writer: tuple[int, int],
    checksum: int,
) -> bytes:
    """Build a batch for the log around the Arrow message of its rows."""
    writer_id, sequence = writer
    if writer_id != log_batch.NO_WRITER:
        message = _with_checksum(message, checksum)
    return log_batch.build_batch(
        message,
        schema_id=schema_id,
        record_count=len(types),
        writer_id=writer_id,
        sequence=sequence,
        changes=types.tobytes(),
    )


def sent_checksum(batch: bytes | memoryview, header: log_batch.BatchHeader) -> int | None:
    """Return the checksum of the request that a batch was made from, or stored as it came.

    None for changelogs of older versions, which do not have it.
    """
    if header.is_append_only:
        return header.crc
    start = log_batch.HEADER_BYTES
    if header.record_count:
        start = log_batch.read_sections(batch, header).changes_end
        if header.size - start < _PREFIX.size:
            return None
        start += _PREFIX.size + _PREFIX.unpack_from(batch, start)[1] - _SENT.size
    if not log_batch.HEADER_BYTES <= start <= header.size - _SENT.size:
        return None
    magic, checksum, _ = _SENT.unpack_from(batch, start)
    return checksum if magic == _SENT_MAGIC else None


def sent_batches(
    batch: bytes | memoryview, header: log_batch.BatchHeader
) -> Iterator[tuple[log_batch.BatchHeader, int | None]]:
    """Yield the headers of the batches that were joined, with what their writers sent.

    A joined changelog no longer has the latter.
    """
    for each in original_headers(batch, header):
        if header.is_joined:
            yield each, each.crc if header.is_append_only else None
        else:
            yield each, sent_checksum(batch, header)


def _with_checksum(message: bytes | memoryview, checksum: int) -> bytes:
    sent = _SENT.pack(_SENT_MAGIC, checksum, 0)
    if not len(message):
        return sent
    mark, length = _PREFIX.unpack_from(message)
    end = _PREFIX.size + length
    prefix = _PREFIX.pack(mark, length + len(sent))
    return b"".join((prefix, message[_PREFIX.size : end], sent, message[end:]))


def read_changelog(
    batch: bytes | memoryview, header: log_batch.BatchHeader, schema: pa.Schema
) -> tuple[npt.NDArray[np.uint8], pa.RecordBatch]:
    """Return the change types and the rows of a stored batch."""
    if not header.record_count:
        return np.empty(0, np.uint8), pa.RecordBatch.from_pylist([], schema=schema)
    sections = log_batch.read_sections(batch, header)
    if header.is_append_only:
        raise CorruptBatchError("A changelog batch has no change types.")
    view = memoryview(batch)
    types = np.frombuffer(view[sections.changes_start : sections.changes_end], np.uint8)
    stream = b"".join((schema.serialize().to_pybytes(), view[sections.changes_end : header.size]))
    rows = pa.ipc.open_stream(stream, options=_ONE_THREAD).read_next_batch()
    return types, rows
