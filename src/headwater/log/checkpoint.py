"""The checkpoint of a bucket: how far recovery can trust the log, with what it knew there."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.errors import CorruptFileError
from headwater.log.mark import Mark, decode_marks, encode_marks
from headwater.log.sealed_file import disclose, enclose
from headwater.log.writers import KeptBatch, Owned, WriterState
from headwater.model.lineage import NO_LINEAGE, Lineage, Start

_MAGIC = b"HWCHECK2"
# Without checksums of batches, owners and starts.
_MAGIC_BEFORE = b"HWCHECK1"
_START = struct.Struct("<qI")
_WRITER = struct.Struct("<qB")
_BATCH = struct.Struct("<iqqq?I")
_BATCH_BEFORE = struct.Struct("<iqqq")
_COUNT = struct.Struct("<I")
_OWNED = struct.Struct("<qQq")
_STARTED = struct.Struct("<qq")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Hold the log start, the marks of the active segment, the writers and the lineage.

    The first mark is the start of the segment; everything before the last one was synced.
    """

    start_offset: int
    marks: tuple[Mark, ...]
    writers: WriterState
    owners: Mapping[int, Owned] = field(default_factory=dict)
    lineage: Lineage = NO_LINEAGE

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
        parts += map(_encode_batch, kept)
    parts.append(_COUNT.pack(len(checkpoint.owners)))
    for writer_id, owned in checkpoint.owners.items():
        parts.append(_OWNED.pack(writer_id, owned.owner, owned.since_ms))
    starts = checkpoint.lineage.starts
    parts.append(_COUNT.pack(len(starts)))
    parts += [_STARTED.pack(start.incarnation, start.offset) for start in starts]
    return enclose(_MAGIC, b"".join((*parts, encode_marks(checkpoint.marks))))


def decode_checkpoint(content: bytes) -> Checkpoint:
    """Read a checkpoint or raise CorruptFileError."""
    if content.startswith(_MAGIC_BEFORE):
        return _decode(disclose(_MAGIC_BEFORE, content), _decode_before)
    return _decode(disclose(_MAGIC, content), _decode_now)


def _decode(body: bytes, decode: Callable[[bytes], Checkpoint]) -> Checkpoint:
    try:
        return decode(body)
    except struct.error as error:
        raise CorruptFileError("A checkpoint ends inside its fields.") from error


def _decode_before(body: bytes) -> Checkpoint:
    start_offset, count = _START.unpack_from(body)
    writers, position = _decode_writers(body, count, batch=_BATCH_BEFORE)
    return Checkpoint(start_offset, decode_marks(body, position)[0], writers)


def _decode_now(body: bytes) -> Checkpoint:
    start_offset, count = _START.unpack_from(body)
    writers, position = _decode_writers(body, count, batch=_BATCH)
    owned, position = _decode_rows(body, position, _OWNED)
    started, position = _decode_rows(body, position, _STARTED)
    return Checkpoint(
        start_offset,
        decode_marks(body, position)[0],
        writers,
        {writer_id: Owned(owner, since_ms) for writer_id, owner, since_ms in owned},
        Lineage(tuple(Start(*fields) for fields in started)),
    )


def _decode_writers(body: bytes, count: int, *, batch: struct.Struct) -> tuple[WriterState, int]:
    writers: dict[int, tuple[KeptBatch, ...]] = {}
    position = _START.size
    for _ in range(count):
        writer_id, batches = _WRITER.unpack_from(body, position)
        start = position + _WRITER.size
        position = start + batches * batch.size
        writers[writer_id] = tuple(map(_decode_batch, batch.iter_unpack(body[start:position])))
    return writers, position


def _decode_rows(
    body: bytes, position: int, row: struct.Struct
) -> tuple[list[tuple[int, ...]], int]:
    (count,) = _COUNT.unpack_from(body, position)
    start = position + _COUNT.size
    position = start + count * row.size
    if position > len(body):
        raise struct.error
    return list(row.iter_unpack(body[start:position])), position


def _encode_batch(batch: KeptBatch) -> bytes:
    return _BATCH.pack(
        batch.sequence,
        batch.base_offset,
        batch.end_offset,
        batch.timestamp_ms,
        batch.checksum is not None,
        batch.checksum or 0,
    )


def _decode_batch(fields: tuple[int, ...]) -> KeptBatch:
    sequence, base_offset, end_offset, timestamp_ms, *rest = fields
    checksum = rest[1] if rest and rest[0] else None
    return KeptBatch(sequence, base_offset, end_offset, timestamp_ms, checksum)
