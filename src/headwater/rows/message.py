"""Arrow record batch messages: their layout, the shapes of their columns, and their writer.

The layout is read and written without touching the body of a message.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.config.options import ArrowCompression
from headwater.errors import CorruptBatchError, UnsupportedError

# How many nodes and buffers a column takes in a message, and what a null column contains.

_OFFSET_BYTES = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """The number of nodes and buffers of one column, including children."""

    node_count: int
    buffer_count: int

    def __add__(self, other: "Shape") -> "Shape":
        return Shape(self.node_count + other.node_count, self.buffer_count + other.buffer_count)


@dataclass(frozen=True, slots=True)
class NullColumn:
    """A column without values; all bytes of its buffers are zero."""

    nodes: tuple[tuple[int, int], ...]
    buffer_lengths: tuple[int, ...]


_NOTHING = Shape(0, 0)
_STRUCT = Shape(1, 1)
_FIXED = Shape(1, 2)
_LIST = Shape(1, 2)
_TEXT = Shape(1, 3)


def shape_of(data_type: pa.DataType) -> Shape:
    """Count the nodes and buffers of a column of this type."""
    own = _own_shape(data_type)
    return sum((shape_of(child) for child in _children(data_type)), own)


def shape_of_all(types: Sequence[pa.DataType]) -> Shape:
    """Count the nodes and buffers of consecutive columns."""
    return sum((shape_of(data_type) for data_type in types), _NOTHING)


def struct_members(types: Sequence[pa.DataType]) -> list[tuple[int, int]]:
    """Return the node of each struct field with the node of its struct, over all columns."""
    pairs: list[tuple[int, int]] = []
    position = 0
    for data_type in types:
        position = _collect_members(data_type, position, pairs)
    return pairs


def _collect_members(data_type: pa.DataType, position: int, pairs: list[tuple[int, int]]) -> int:
    child_position = position + 1
    for child in _children(data_type):
        if pa.types.is_struct(data_type):
            pairs.append((child_position, position))
        child_position = _collect_members(child, child_position, pairs)
    return child_position


def null_column(data_type: pa.DataType, row_count: int) -> NullColumn:
    """Describe a column of this type with only nulls."""
    own = _null_buffers(data_type, row_count)
    # A null list has no elements, but a null struct still has a slot in each of its fields.
    child_rows = row_count if pa.types.is_struct(data_type) else 0
    children = [null_column(child, child_rows) for child in _children(data_type)]
    return NullColumn(
        nodes=((row_count, row_count), *(node for child in children for node in child.nodes)),
        buffer_lengths=(*own, *(size for child in children for size in child.buffer_lengths)),
    )


def _null_buffers(data_type: pa.DataType, row_count: int) -> tuple[int, ...]:
    validity = (row_count + 7) // 8
    offsets = (row_count + 1) * _OFFSET_BYTES
    match _own_shape(data_type):
        case shape if shape == _STRUCT:
            return (validity,)
        case shape if shape == _TEXT:
            return (validity, offsets, 0)
        case _ if _children(data_type):
            return (validity, offsets)
        case _:
            return (validity, (row_count * data_type.bit_width + 7) // 8)


def _own_shape(data_type: pa.DataType) -> Shape:
    if pa.types.is_struct(data_type):
        return _STRUCT
    if pa.types.is_list(data_type) or pa.types.is_map(data_type):
        return _LIST
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _TEXT
    if _has_fixed_width(data_type):
        return _FIXED
    raise UnsupportedError(f"Columns of the Arrow type {data_type} are not supported.")


def _has_fixed_width(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_primitive(data_type)
        or pa.types.is_fixed_size_binary(data_type)
        or pa.types.is_decimal128(data_type)
    )


def _children(data_type: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(data_type):
        return [field.type for field in data_type]
    if pa.types.is_map(data_type):
        entries = [data_type.key_field, data_type.item_field]
        return [pa.struct(entries)]
    if pa.types.is_list(data_type):
        return [data_type.value_type]
    return []


# The layout of a message. An encapsulated message is `ff ff ff ff`, the metadata size as i32, the
# metadata as a flatbuffer and the body. The metadata lists one node (length, null count) per field
# and one range of the body (offset, length) per buffer, both in depth-first order.

Codec: TypeAlias = Literal["lz4", "zstd"]
Pairs: TypeAlias = npt.NDArray[np.int64]

PREFIX_BYTES = 8
ALIGNMENT = 8
# Older metadata may have the codec in custom metadata, where our limits do not see it.
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

# How many fields of the tables in Arrow's Message.fbs are used.
_MESSAGE_FIELDS = 4
_BATCH_FIELDS = 5
_COMPRESSION_FIELDS = 2
_VTABLE_HEAD_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class MessageLayout:
    """What the metadata of a record batch message says of its body."""

    row_count: int
    nodes: Pairs
    buffers: Pairs
    compression: Codec | None
    metadata_end: int
    body_length: int


def metadata_bytes(prefix: bytes | memoryview) -> int:
    """Compute how many bytes come before the body, from the first 8 bytes of a message."""
    if len(prefix) < PREFIX_BYTES:
        raise CorruptBatchError(f"An Arrow message ends after {len(prefix)} bytes.")
    continuation, size = _PREFIX.unpack_from(prefix)
    if continuation != _CONTINUATION:
        raise CorruptBatchError(f"An Arrow message starts with {continuation:#010x}.")
    if size <= 0:
        raise CorruptBatchError(f"An Arrow message declares {size} bytes of metadata.")
    return PREFIX_BYTES + int(size)


def read_layout(prefix: bytes | memoryview, *, message_bytes: int) -> MessageLayout:
    """Parse and check the layout of a message from its first bytes, including the metadata."""
    end = metadata_bytes(prefix)
    if end > message_bytes or end > len(prefix):
        raise CorruptBatchError(f"An Arrow message ends inside its {end} bytes of metadata.")
    try:
        layout = _read_message(memoryview(prefix)[PREFIX_BYTES:end])
    except struct.error:
        raise CorruptBatchError("Arrow metadata points outside of itself.") from None
    _check_whole(layout, message_bytes)
    return layout


@dataclass(frozen=True, slots=True, eq=False)
class MessageSample:
    """Hold metadata that Arrow wrote for one schema, and where the numbers are in it."""

    head: bytes
    """Everything before the body: mark, size and metadata."""
    row_count_at: int
    body_length_at: int
    nodes_at: int
    node_count: int
    buffers_at: int
    buffer_count: int

    @classmethod
    def of(cls, schema: pa.Schema) -> "MessageSample":
        """Have Arrow write a row of nulls, and look for the numbers; there must be columns."""
        columns = [pa.nulls(1, field.type) for field in schema]
        sample = memoryview(pa.RecordBatch.from_arrays(columns, names=schema.names).serialize())
        head = bytes(sample[: metadata_bytes(sample)])
        meta = memoryview(head)[PREFIX_BYTES:]
        _, _, header_at, body_length_at = _fields(meta, 0, _MESSAGE_FIELDS)
        length_at, nodes_at, buffers_at, *_ = _fields(meta, header_at, _BATCH_FIELDS)
        nodes, buffers = _follow(meta, nodes_at), _follow(meta, buffers_at)
        return cls(
            head,
            PREFIX_BYTES + length_at,
            PREFIX_BYTES + body_length_at,
            PREFIX_BYTES + nodes + _U32.size,
            int(_U32.unpack_from(meta, nodes)[0]),
            PREFIX_BYTES + buffers + _U32.size,
            int(_U32.unpack_from(meta, buffers)[0]),
        )

    def fixed(self) -> tuple[tuple[slice, bytes], ...]:
        """Return the bytes between the numbers, which all messages of the schema share."""
        words = (
            (self.row_count_at, 1),
            (self.body_length_at, 1),
            (self.nodes_at, 2 * self.node_count),
            (self.buffers_at, 2 * self.buffer_count),
        )
        ranges = sorted((at, at + 8 * count) for at, count in words)
        bounds = [0, *(at for each in ranges for at in each), len(self.head)]
        gaps = zip(bounds[::2], bounds[1::2], strict=True)
        return tuple((slice(at, end), self.head[at:end]) for at, end in gaps)

    def filled(
        self, row_count: int, nodes: Sequence[int], buffers: Sequence[int], *, body_length: int
    ) -> bytearray:
        """Return what comes before the body of a message with these numbers."""
        head = bytearray(self.head)
        _I64.pack_into(head, self.row_count_at, row_count)
        _I64.pack_into(head, self.body_length_at, body_length)
        struct.pack_into(f"<{len(nodes)}q", head, self.nodes_at, *nodes)
        struct.pack_into(f"<{len(buffers)}q", head, self.buffers_at, *buffers)
        return head


class LayoutReader:
    """Read layouts of one schema, quickly where only the numbers differ from Arrow's own metadata.

    A sample that Arrow wrote here tells where the numbers are. Metadata that has the same bytes
    everywhere else has the same structure, so its numbers are read from the same places.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._sample = MessageSample.of(schema) if len(schema) else None
        self._fixed = () if self._sample is None else self._sample.fixed()

    def read(self, message: memoryview) -> MessageLayout:
        """Read and check the layout of a whole message."""
        layout = self._read_known(message)
        if layout is None:
            return read_layout(message, message_bytes=len(message))
        _check_whole(layout, len(message))
        return layout

    def _read_known(self, message: memoryview) -> MessageLayout | None:
        sample = self._sample
        if sample is None or len(message) < len(sample.head):
            return None
        for place, fixed in self._fixed:
            if message[place] != fixed:
                return None
        node_count, buffer_count = sample.node_count, sample.buffer_count
        nodes = np.frombuffer(message, _WORD, count=2 * node_count, offset=sample.nodes_at)
        buffers = np.frombuffer(message, _WORD, count=2 * buffer_count, offset=sample.buffers_at)
        return MessageLayout(
            row_count=_I64.unpack_from(message, sample.row_count_at)[0],
            nodes=nodes.reshape(node_count, 2),
            buffers=buffers.reshape(buffer_count, 2),
            compression=None,
            metadata_end=len(sample.head),
            body_length=_I64.unpack_from(message, sample.body_length_at)[0],
        )


def _check_whole(layout: MessageLayout, message_bytes: int) -> None:
    """Refuse a layout that does not fit the body of its message."""
    there = message_bytes - layout.metadata_end
    if layout.body_length != there:
        raise CorruptBatchError(
            f"An Arrow message declares a body of {layout.body_length} bytes, but has {there}."
        )
    _check_nodes(layout)
    _check_buffers(layout)


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
        raise CorruptBatchError(f"An Arrow record batch has no {what}.")
    vector = _follow(meta, position)
    (count,) = _U32.unpack_from(meta, vector)
    start = vector + _U32.size
    if count * _PAIR_BYTES > len(meta) - start:
        raise CorruptBatchError(f"An Arrow record batch declares {count} {what}.")
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
    is_wrong = layout.row_count < 0
    for length, null_count in layout.nodes.tolist():
        is_wrong |= not 0 <= null_count <= length
    if is_wrong:
        raise CorruptBatchError("An Arrow record batch has fewer rows than nulls.")


def _check_buffers(layout: MessageLayout) -> None:
    body_length, total = layout.body_length, 0
    for offset, length in layout.buffers.tolist():
        if offset < 0 or length < 0 or offset + length > body_length:
            raise CorruptBatchError("A buffer of an Arrow record batch is outside its body.")
        if offset % ALIGNMENT:
            raise CorruptBatchError("A buffer of an Arrow record batch is not aligned to 8 bytes.")
        total += length
    # Overlapping buffers would let a small batch grow when columns are copied out of it.
    if total > body_length:
        raise CorruptBatchError("Buffers of an Arrow record batch overlap.")


# Where the fields are in the metadata that we write; see `_blank_metadata`.
_BODY_LENGTH_AT = 24
_ROW_COUNT_AT = 56
_NODES_AT = 96


@dataclass(frozen=True, slots=True, eq=False)
class MessageTemplate:
    """The bytes before the body of messages with the same counts and codec."""

    words: npt.NDArray[np.int64]
    node_count: int

    @classmethod
    def of(cls, node_count: int, buffer_count: int, *, codec: Codec | None) -> "MessageTemplate":
        """Lay out metadata for so many nodes and buffers."""
        metadata = _blank_metadata(node_count, buffer_count, codec=codec)
        prefix = _PREFIX.pack(_CONTINUATION, len(metadata))
        return cls(np.frombuffer(prefix + metadata, _WORD), node_count)

    def fill(self, row_count: int, *, nodes: Pairs, buffers: Pairs, body_length: int) -> bytes:
        """Fill in continuation, size and metadata of one message."""
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
    """Write a flatbuffer whose every 8-byte field is aligned to a word, ready to be patched."""
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
            # 88: padding, so that the nodes start on a word after their count.
            struct.pack("<4xI", node_count),
            bytes(_PAIR_BYTES * node_count),
            struct.pack("<4xI", buffer_count),
            bytes(_PAIR_BYTES * buffer_count),
        )
    )


# Rows as one Arrow message, as batches of a log contain them.

PLAIN_BYTES_MAX = 512
"""Fewer bytes are better left uncompressed: each buffer is compressed separately, and small ones
grow. Starting a codec takes ten times as long as writing a few rows.
"""


def arrow_codec(compression: ArrowCompression, *, zstd_level: int) -> pa.Codec | None:
    """Pick the codec for the rows of a table."""
    match compression:
        case ArrowCompression.NONE:
            return None
        case ArrowCompression.LZ4_FRAME:
            return pa.Codec("lz4")
        case ArrowCompression.ZSTD:
            return pa.Codec("zstd", compression_level=zstd_level)


class MessageWriter:
    """Write rows of one schema."""

    def __init__(self, schema: pa.Schema, codec: pa.Codec | None) -> None:
        self._schema = schema
        self._codec = codec

    def write(
        self, rows: pa.RecordBatch, *, plain_bytes_max: int = 0, use_threads: bool = False
    ) -> memoryview:
        """Write the message of these rows, without their schema; small ones are not compressed.

        Only for readers that look at each message: a server of Apache Fluss that prunes columns
        assumes that all batches of a table are compressed.
        """
        codec = self._codec if rows.nbytes > plain_bytes_max else None
        if codec is None:
            return memoryview(rows.serialize())
        options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=use_threads)
        sink = pa.BufferOutputStream()
        writer = pa.ipc.new_stream(sink, self._schema, options=options)
        writer.write_batch(rows)
        end = sink.tell()
        # The writer puts the schema before the first batch.
        return memoryview(sink.getvalue())[self._schema.serialize().size : end]
