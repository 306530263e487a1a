"""The layout of an Arrow record batch message, read and written without touching its body.

An encapsulated message is `ff ff ff ff`, the metadata size as i32, the metadata as a flatbuffer
and the body. The metadata lists one node (length, null count) per field and one range of the
body (offset, length) per buffer, both in depth-first order.
"""

import struct
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.errors import CorruptBatchError

Codec: TypeAlias = Literal["lz4", "zstd"]
Pairs: TypeAlias = npt.NDArray[np.int64]

PREFIX_BYTES = 8
ALIGNMENT = 8
# Older metadata may hide the codec in custom metadata, out of sight of our limits.
_VERSION_5 = 4
_RECORD_BATCH = 3
_CODECS: tuple[Codec, ...] = ("lz4", "zstd")
_CONTINUATION = 0xFFFFFFFF
_PREFIX = struct.Struct("<Ii")
_U8 = struct.Struct("<B")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_I16 = struct.Struct("<h")
_I64 = struct.Struct("<q")
_PAIR_BYTES = 16
_WORD = np.dtype("<i8")

# How many fields of the tables in Arrow's Message.fbs we look at.
_MESSAGE_FIELDS = 4
_BATCH_FIELDS = 5
_COMPRESSION_FIELDS = 2
_VTABLE_HEAD_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class MessageLayout:
    """Hold what the metadata of a record batch message says of its body."""

    row_count: int
    nodes: Pairs
    buffers: Pairs
    compression: Codec | None
    metadata_end: int
    body_length: int


def metadata_bytes(prefix: bytes | memoryview) -> int:
    """Return how many bytes lead up to the body, told by the first 8 bytes of a message."""
    if len(prefix) < PREFIX_BYTES:
        raise CorruptBatchError(f"An Arrow message ends after {len(prefix)} bytes.")
    continuation, size = _PREFIX.unpack_from(prefix)
    if continuation != _CONTINUATION:
        raise CorruptBatchError(f"An Arrow message starts with {continuation:#010x}.")
    if size <= 0:
        raise CorruptBatchError(f"An Arrow message claims {size} bytes of metadata.")
    return PREFIX_BYTES + int(size)


def read_layout(prefix: bytes | memoryview, *, message_bytes: int) -> MessageLayout:
    """Read and check the layout of a message from its first bytes, metadata included."""
    end = metadata_bytes(prefix)
    if end > message_bytes or end > len(prefix):
        raise CorruptBatchError(f"An Arrow message ends inside its {end} bytes of metadata.")
    try:
        layout = _read_message(memoryview(prefix)[PREFIX_BYTES:end])
    except struct.error:
        raise CorruptBatchError("Arrow metadata points outside of itself.") from None
    if layout.body_length != message_bytes - end:
        raise CorruptBatchError(
            f"An Arrow message claims a body of {layout.body_length} bytes,"
            f" but {message_bytes - end} are there."
        )
    _check_nodes(layout)
    _check_buffers(layout)
    return layout


def _read_message(meta: memoryview) -> MessageLayout:
    version_at, kind_at, header_at, body_length_at = _fields(meta, 0, _MESSAGE_FIELDS)
    version = _scalar(meta, version_at, _I16)
    if version != _VERSION_5:
        raise CorruptBatchError(f"Arrow metadata has version {version + 1}, expected 5.")
    kind = _scalar(meta, kind_at, _U8)
    if kind != _RECORD_BATCH or not header_at:
        raise CorruptBatchError(f"An Arrow message of kind {kind} is not a record batch.")
    length_at, nodes_at, buffers_at, codec_at, variadic_at = _fields(meta, header_at, _BATCH_FIELDS)
    if variadic_at and _U32.unpack_from(meta, _follow(meta, variadic_at))[0]:
        raise CorruptBatchError("Arrow view types with variadic buffers are not supported.")
    return MessageLayout(
        row_count=_scalar(meta, length_at, _I64),
        nodes=_pairs(meta, nodes_at, what="nodes"),
        buffers=_pairs(meta, buffers_at, what="buffers"),
        compression=_codec(meta, codec_at),
        metadata_end=PREFIX_BYTES + len(meta),
        body_length=_scalar(meta, body_length_at, _I64),
    )


def _codec(meta: memoryview, position: int) -> Codec | None:
    if not position:
        return None
    codec_at, method_at = _fields(meta, position, _COMPRESSION_FIELDS)
    codec, method = _scalar(meta, codec_at, _U8), _scalar(meta, method_at, _U8)
    if method or codec >= len(_CODECS):
        raise CorruptBatchError(f"Arrow compression {codec} by method {method} is unknown.")
    return _CODECS[codec]


def _pairs(meta: memoryview, position: int, *, what: str) -> Pairs:
    if not position:
        raise CorruptBatchError(f"An Arrow record batch lists no {what}.")
    vector = _follow(meta, position)
    (count,) = _U32.unpack_from(meta, vector)
    start = vector + _U32.size
    if count * _PAIR_BYTES > len(meta) - start:
        raise CorruptBatchError(f"An Arrow record batch claims {count} {what}.")
    flat = np.frombuffer(meta, _WORD, count=2 * count, offset=start)
    return flat.reshape(count, 2)


def _fields(meta: memoryview, reference: int, count: int) -> list[int]:
    """Return the positions of the first fields of a flatbuffer table, 0 for an absent one."""
    table = _follow(meta, reference)
    vtable = table - _I32.unpack_from(meta, table)[0]
    # A negative position would silently count from the end.
    if vtable < 0:
        raise CorruptBatchError("Arrow metadata points before its start.")
    (size,) = _U16.unpack_from(meta, vtable)
    present = max(0, min(count, (size - _VTABLE_HEAD_BYTES) // 2))
    offsets = struct.unpack_from(f"<{present}H", meta, vtable + _VTABLE_HEAD_BYTES)
    positions = [table + offset if offset else 0 for offset in offsets]
    return positions + [0] * (count - present)


def _follow(meta: memoryview, position: int) -> int:
    return position + int(_U32.unpack_from(meta, position)[0])


def _scalar(meta: memoryview, position: int, kind: struct.Struct) -> int:
    return int(kind.unpack_from(meta, position)[0]) if position else 0


def _check_nodes(layout: MessageLayout) -> None:
    # Plain numbers: there are few, and each call into numpy costs more than all of them.
    if layout.row_count < 0 or any(
        not 0 <= null_count <= length for length, null_count in layout.nodes.tolist()
    ):
        raise CorruptBatchError("An Arrow record batch counts fewer rows than nulls.")


def _check_buffers(layout: MessageLayout) -> None:
    body_length, total = layout.body_length, 0
    for offset, length in layout.buffers.tolist():
        if offset < 0 or length < 0 or offset + length > body_length:
            raise CorruptBatchError("A buffer of an Arrow record batch lies outside its body.")
        if offset % ALIGNMENT:
            raise CorruptBatchError("A buffer of an Arrow record batch is not aligned to 8 bytes.")
        total += length
    # Buffers that share bytes would let a small batch grow when columns are copied out of it.
    if total > body_length:
        raise CorruptBatchError("Buffers of an Arrow record batch overlap.")


# Where the fields lie in the metadata that we write; see `_blank_metadata`.
_BODY_LENGTH_AT = 24
_ROW_COUNT_AT = 56
_NODES_AT = 96


@dataclass(frozen=True, slots=True, eq=False)
class MessageTemplate:
    """Hold the bytes before the body of messages that share their counts and codec."""

    words: npt.NDArray[np.int64]
    node_count: int

    @classmethod
    def of(cls, node_count: int, buffer_count: int, *, codec: Codec | None) -> "MessageTemplate":
        """Lay out metadata for so many nodes and buffers."""
        metadata = _blank_metadata(node_count, buffer_count, codec=codec)
        prefix = _PREFIX.pack(_CONTINUATION, len(metadata))
        return cls(np.frombuffer(prefix + metadata, _WORD), node_count)

    def fill(self, row_count: int, *, nodes: Pairs, buffers: Pairs, body_length: int) -> bytes:
        """Return continuation, size and metadata of one message."""
        words = self.words.copy()
        words[_word(_BODY_LENGTH_AT)] = body_length
        words[_word(_ROW_COUNT_AT)] = row_count
        nodes_start = _word(_NODES_AT)
        nodes_end = nodes_start + 2 * self.node_count
        words[nodes_start:nodes_end] = nodes.ravel()
        words[nodes_end + 1 :] = buffers.ravel()
        return words.tobytes()


def _word(metadata_position: int) -> int:
    return (PREFIX_BYTES + metadata_position) // 8


def _blank_metadata(node_count: int, buffer_count: int, *, codec: Codec | None) -> bytes:
    """Write a flatbuffer whose every 8-byte field lies on a word, ready to be patched."""
    buffers_count_at = _NODES_AT + _PAIR_BYTES * node_count + 4
    return b"".join(
        (
            # 0: root at 16; 4: its vtable, with the field offsets 4, 6, 16 and 8.
            struct.pack("<I6H", 16, 12, 20, 4, 6, 16, 8),
            # 16: Message; version, kind, body length at 24, header at 32 leads to 48.
            struct.pack("<ihBxqI", 12, _VERSION_5, _RECORD_BATCH, 0, 48 - 32),
            # 36: vtable of RecordBatch; without a codec its last field is absent.
            struct.pack("<6H", 12, 24, 8, 4, 16, 20 if codec else 0),
            # 48: RecordBatch; nodes counted at 92, length at 56, buffers, compression at 80.
            struct.pack("<iIqII", 12, 92 - 52, 0, buffers_count_at - 64, 80 - 68),
            # 72: vtable of BodyCompression; 80: the table; method 0 compresses each buffer.
            struct.pack("<4HiBBxx", 8, 6, 4, 5, 8, _CODECS.index(codec) if codec else 0, 0),
            # 88: padding, so that the nodes start on a word behind their count.
            struct.pack("<4xI", node_count),
            bytes(_PAIR_BYTES * node_count),
            struct.pack("<4xI", buffer_count),
            bytes(_PAIR_BYTES * buffer_count),
        )
    )
