"""The small files next to the segments of a bucket: segment indexes, and the checkpoint.

Each has a magic word and a checksum. One that cannot be read is ignored: everything in it can be
rebuilt from the segments.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.errors import CorruptFileError
from headwater.log.segment import CHECKPOINT, Mark, decode_marks, encode_marks, index_name
from headwater.log.writers import KeptBatch, Owned, WriterState
from headwater.model import Lineage
from headwater.model.bucket import NO_LINEAGE, Start
from headwater.rows.row_bytes import crc32c
from headwater.store.disk import Disk

# The envelope of these files: a magic word, a body, a checksum.

_CHECKSUM = struct.Struct("<I")


def enclose(magic: bytes, body: bytes) -> bytes:
    """Wrap a body."""
    content = magic + body
    return content + _CHECKSUM.pack(crc32c(content))


def disclose(magic: bytes, content: bytes) -> bytes:
    """Unwrap the body of a file, after checking magic word and checksum."""
    if len(content) < len(magic) + _CHECKSUM.size or not content.startswith(magic):
        raise CorruptFileError(f"A file does not start with {magic!r}.")
    (expected,) = _CHECKSUM.unpack(content[-_CHECKSUM.size :])
    if crc32c(content[: -_CHECKSUM.size]) != expected:
        raise CorruptFileError(f"The checksum of a {magic!r} file does not match.")
    return content[len(magic) : -_CHECKSUM.size]


# The index of a sealed segment: its marks, the last of them at its end.

_INDEX_MAGIC = b"HWINDEX1"


def encode_index(marks: Sequence[Mark]) -> bytes:
    """Encode the marks of a sealed segment."""
    return enclose(_INDEX_MAGIC, encode_marks(marks))


def decode_index(content: bytes) -> tuple[Mark, ...]:
    """Decode the marks of a sealed segment, or raise CorruptFileError."""
    marks, _ = decode_marks(disclose(_INDEX_MAGIC, content), 0)
    return marks


# The checkpoint of a bucket: how far recovery can trust the log, and the state there.

_CHECKPOINT_MAGIC = b"HWCHECK2"
# Version without batch checksums, owners and start offsets.
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
    """The log start, the marks of the active segment, the writers and the lineage.

    The first mark is the start of the segment; everything before the last one was synced.
    """

    start_offset: int
    marks: tuple[Mark, ...]
    writers: WriterState
    owners: Mapping[int, Owned] = field(default_factory=dict)
    lineage: Lineage = NO_LINEAGE

    @property
    def segment_base(self) -> int:
        """Base offset of the segment that was active."""
        return self.marks[0].offset

    @property
    def recovery_offset(self) -> int:
        """Offset up to which everything was synced."""
        return self.marks[-1].offset


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode a checkpoint."""
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
    return enclose(_CHECKPOINT_MAGIC, b"".join((*parts, encode_marks(checkpoint.marks))))


def decode_checkpoint(content: bytes) -> Checkpoint:
    """Decode a checkpoint, or raise CorruptFileError."""
    if content.startswith(_MAGIC_BEFORE):
        return _decode(disclose(_MAGIC_BEFORE, content), _decode_before)
    return _decode(disclose(_CHECKPOINT_MAGIC, content), _decode_now)


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


# Loading these files, or doing without them.


class SmallFiles:
    """Reads checkpoint and indexes; a bad one counts as missing and is noted in `repairs`."""

    def __init__(self, disk: Disk, directory: str, names: Sequence[str]) -> None:
        self.repairs: list[str] = []
        self._disk = disk
        self._directory = directory
        self._names = names

    def checkpoint(self) -> Checkpoint | None:
        """Read the checkpoint; None if it is missing or bad."""
        content = self._read(CHECKPOINT)
        try:
            return None if content is None else decode_checkpoint(content)
        except CorruptFileError as error:
            self.repairs.append(f"{CHECKPOINT}: rebuilt, because: {error}")
            return None

    def index(self, base_offset: int) -> tuple[Mark, ...]:
        """Read the marks of an index; empty if it is missing, bad or of another segment."""
        content = self._read(index_name(base_offset))
        try:
            marks = () if content is None else decode_index(content)
        except CorruptFileError as error:
            self.repairs.append(f"{index_name(base_offset)}: rebuilt, because: {error}")
            return ()
        return marks if marks and marks[0].offset == base_offset else ()

    def _read(self, name: str) -> bytes | None:
        if name not in self._names:
            return None
        file = self._disk.open(f"{self._directory}/{name}")
        return file.read(0, file.size)
