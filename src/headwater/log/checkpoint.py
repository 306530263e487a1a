"""The checkpoint of a bucket: how far recovery can trust the log, with what it knew there."""

import struct
from dataclasses import dataclass

from headwater.errors import CorruptFileError
from headwater.log.mark import Mark, decode_marks, encode_marks
from headwater.log.sealed_file import disclose, enclose
from headwater.log.writers import KeptBatch, WriterState

_MAGIC = b"HWCHECK1"
_START = struct.Struct("<qI")
_WRITER = struct.Struct("<qB")
_BATCH = struct.Struct("<iqqq")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Hold the log start, the marks of the active segment and the writers.

    The first mark is the start of the segment; everything before the last one was synced.
    """

    start_offset: int
    marks: tuple[Mark, ...]
    writers: WriterState

    @property
    def segment_base(self) -> int:
        """Return the base offset of the segment that was active."""
        return self.marks[0].offset

    @property
    def recovery_offset(self) -> int:
        """Return the offset up to which everything was synced."""
        return self.marks[-1].offset


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Write a checkpoint."""
    parts = [_START.pack(checkpoint.start_offset, len(checkpoint.writers))]
    for writer_id, kept in checkpoint.writers.items():
        parts.append(_WRITER.pack(writer_id, len(kept)))
        parts += [
            _BATCH.pack(batch.sequence, batch.base_offset, batch.end_offset, batch.timestamp_ms)
            for batch in kept
        ]
    return enclose(_MAGIC, b"".join((*parts, encode_marks(checkpoint.marks))))


def decode_checkpoint(content: bytes) -> Checkpoint:
    """Read a checkpoint or raise CorruptFileError."""
    body = disclose(_MAGIC, content)
    try:
        start_offset, count = _START.unpack_from(body)
        writers, position = _decode_writers(body, count)
        marks, _ = decode_marks(body, position)
    except struct.error as error:
        raise CorruptFileError("A checkpoint ends inside its fields.") from error
    return Checkpoint(start_offset, marks, writers)


def _decode_writers(body: bytes, count: int) -> tuple[WriterState, int]:
    writers: dict[int, tuple[KeptBatch, ...]] = {}
    position = _START.size
    for _ in range(count):
        writer_id, batches = _WRITER.unpack_from(body, position)
        start = position + _WRITER.size
        position = start + batches * _BATCH.size
        kept = (KeptBatch(*fields) for fields in _BATCH.iter_unpack(body[start:position]))
        writers[writer_id] = tuple(kept)
    return writers, position
