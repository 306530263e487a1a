"""Changelog batches that the server makes: rows with what happened to them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptBatchError
from headwater.rows.log_batch import BatchHeader, build_batch, read_sections
from headwater.rows.message_write import PLAIN_BYTES_MAX, MessageWriter

_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


def build_changelog(
    rows: pa.RecordBatch | None,
    types: npt.NDArray[np.uint8],
    *,
    schema_id: int,
    writer: tuple[int, int],
    codec: pa.Codec | None,
) -> bytes:
    """Build a batch for the log; without changes it only carries writer and sequence."""
    writer_id, sequence = writer
    message: bytes | memoryview = b""
    if rows is not None and len(types):
        message = MessageWriter(rows.schema, codec).write(rows, plain_bytes_max=PLAIN_BYTES_MAX)
    return build_batch(
        message,
        schema_id=schema_id,
        record_count=len(types),
        writer_id=writer_id,
        sequence=sequence,
        changes=types.tobytes(),
    )


def read_changelog(
    batch: bytes | memoryview, header: BatchHeader, schema: pa.Schema
) -> tuple[npt.NDArray[np.uint8], pa.RecordBatch]:
    """Return the change types and the rows of a stored batch."""
    if not header.record_count:
        return np.empty(0, np.uint8), pa.RecordBatch.from_pylist([], schema=schema)
    sections = read_sections(batch, header)
    if header.is_append_only:
        raise CorruptBatchError("A changelog batch holds no change types.")
    view = memoryview(batch)
    types = np.frombuffer(view[sections.parts_end : sections.changes_end], np.uint8)
    stream = b"".join((schema.serialize().to_pybytes(), view[sections.changes_end : header.size]))
    rows = pa.ipc.open_stream(stream, options=_ONE_THREAD).read_next_batch()
    return types, rows
