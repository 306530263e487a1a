"""Copies selected columns out of a stored batch without decoding it."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptBatchError, InvalidProjectionError
from headwater.model import Column, Schema
from headwater.model.arrow import arrow_type
from headwater.rows import log_batch, message
from headwater.rows.row_bytes import crc32c_of_parts

# Where the buffers of a new message body come from, and where they go.

# Limit on the nulls sent in place of columns that a batch lacks; a reader of all columns gets none.
NULLS_BYTES_MAX = 64 * 1024 * 1024
# Writers pad buffers to at most 64 bytes: a smaller gap is copied along instead of split at.
_GAP_BYTES = 64
_NOT_COMPRESSED = struct.Struct("<q").pack(-1)


@dataclass(frozen=True, slots=True, eq=False)
class BodySource:
    """Where bytes come from: the stored body, followed by zeros for null columns."""

    nodes: message.Pairs
    buffers: message.Pairs
    nulls_start: int
    nulls: bytes


def source_of(layout: message.MessageLayout, null_types: Sequence[pa.DataType]) -> BodySource:
    """Append null columns of the given types to the stored body."""
    nulls_start = _padded(layout.body_length) + _GAP_BYTES
    if not null_types:
        return BodySource(layout.nodes, layout.buffers, nulls_start, b"")
    columns = [message.null_column(data_type, layout.row_count) for data_type in null_types]
    _check_size(columns, layout.row_count)
    nodes = [node for column in columns for node in column.nodes]
    ranges, nulls = _null_body(columns, compressed=layout.compression is not None)
    buffers = [(nulls_start + offset, length) for offset, length in ranges]
    return BodySource(
        nodes=np.concatenate((layout.nodes, np.array(nodes, np.int64))),
        buffers=np.concatenate((layout.buffers, np.array(buffers, np.int64))),
        nulls_start=nulls_start,
        nulls=nulls,
    )


def _check_size(columns: Sequence[message.NullColumn], row_count: int) -> None:
    """Reject large null columns: a batch of many rows may be only a few bytes itself."""
    size = sum(length for column in columns for length in column.buffer_lengths)
    if size > NULLS_BYTES_MAX:
        raise InvalidProjectionError(
            f"A batch of {row_count} rows lacks {len(columns)} columns; nulls in their place "
            f"would take {size} bytes, more than the limit of {NULLS_BYTES_MAX}.",
            hint="Read fewer columns at a time, or whole batches.",
        )


def _null_body(
    columns: Sequence[message.NullColumn], *, compressed: bool
) -> tuple[list[tuple[int, int]], bytes]:
    lead = _NOT_COMPRESSED if compressed else b""
    ranges, parts, position = [], [], 0
    for length in (length for column in columns for length in column.buffer_lengths):
        stored = length + len(lead) if length else 0
        ranges.append((position, stored))
        if stored:
            parts += [lead, bytes(_padded(stored) - len(lead))]
        position += _padded(stored)
    return ranges, b"".join(parts)


def lay_out(picked: message.Pairs) -> tuple[message.Pairs, list[tuple[int, int]]]:
    """Return where the buffers go, and the source runs that make up the new body."""
    # A plain loop: a projection has few buffers, and numpy would cost ten times as much.
    ranges: list[tuple[int, int]] = []
    runs: list[tuple[int, int]] = []
    body_end, shift, run_start, run_end = 0, 0, 0, -_GAP_BYTES
    for start, length in picked.tolist():
        if length == 0:
            ranges.append((0, 0))
            continue
        if not 0 <= start - run_end < _GAP_BYTES:
            run_start, shift = start, body_end - start
            runs.append((start, start))
        run_end = start + length
        runs[-1] = (run_start, run_end)
        body_end = _padded(run_end + shift)
        ranges.append((start + shift, length))
    return np.array(ranges, np.int64), runs


def _padded(length: int) -> int:
    return (length + message.ALIGNMENT - 1) & -message.ALIGNMENT


Part: TypeAlias = bytes | memoryview
Read: TypeAlias = Callable[[int, int], bytes]
Ints: TypeAlias = npt.NDArray[np.int64]

# Below this size one read of the whole batch is faster than several of its pieces.
WHOLE_READ_BYTES_MAX = 64 * 1024
# Size of metadata and statistics besides nodes and buffers; too low only costs a second read.
_METADATA_SLACK_BYTES = 1024
_PAIR_BYTES = 16
_CRC = struct.Struct("<I")
_CODECS: tuple[message.Codec | None, ...] = (None, "lz4", "zstd")


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Where the wanted columns are in batches of one stored schema.

    `node_sources` and `buffer_sources` are the stored positions of each wanted node and buffer;
    those of null columns are numbered after the stored ones.
    """

    stored: message.Shape
    node_sources: Ints
    buffer_sources: Ints
    null_types: tuple[pa.DataType, ...]
    templates: dict[message.Codec | None, message.MessageTemplate]

    @classmethod
    def of(cls, stored: Schema, wanted: Sequence[Column]) -> "Projection":
        """Match wanted columns with stored ones by id; a missing one becomes null."""
        types = [arrow_type(column.type) for column in stored.columns]
        places = dict(zip(_ids(stored.columns), _places(types, message.Shape(0, 0)), strict=True))
        missing = [column for column in wanted if column.column_id not in places]
        null_types = [arrow_type(column.type) for column in missing]
        total = message.shape_of_all(types)
        _check_types(stored, wanted)
        places |= dict(zip(_ids(missing), _places(null_types, total), strict=True))
        chosen = [places[column.column_id] for column in wanted]
        nodes = [node for place in chosen for node in place.nodes]
        buffers = [buffer for place in chosen for buffer in place.buffers]
        return cls(
            stored=total,
            node_sources=np.array(nodes, np.int64),
            buffer_sources=np.array(buffers, np.int64),
            null_types=tuple(null_types),
            templates={
                codec: message.MessageTemplate.of(len(nodes), len(buffers), codec=codec)
                for codec in _CODECS
            },
        )


@dataclass(frozen=True, slots=True)
class _Place:
    nodes: range
    buffers: range


def _ids(columns: Sequence[Column]) -> list[int]:
    return [column.column_id for column in columns]


def _places(types: Sequence[pa.DataType], start: message.Shape) -> list[_Place]:
    places = []
    for data_type in types:
        end = start + message.shape_of(data_type)
        places.append(
            _Place(
                range(start.node_count, end.node_count), range(start.buffer_count, end.buffer_count)
            )
        )
        start = end
    return places


def _check_types(stored: Schema, wanted: Sequence[Column]) -> None:
    held = {column.column_id: column for column in stored.columns}
    for column in wanted:
        old = held.get(column.column_id, column)
        if arrow_type(old.type) != arrow_type(column.type):
            raise InvalidProjectionError(
                f"Column '{column.name}' is stored as {old.type}, not as {column.type}.",
                hint="Use the columns of the table's current schema version.",
            )


def project_batch(read: Read, header: log_batch.BatchHeader, projection: Projection) -> list[Part]:
    """Return the parts of a batch with only the wanted columns.

    1. Read header and metadata. 2. Pick nodes and buffers. 3. Read the picked runs of bytes.
    4. Write new metadata and a new header. Statistics are left out, change types are kept.
    """
    if header.record_count == 0:
        return _sealed(header, [])
    read_part = _reader(read, header)
    prefix, sections = _read_prefix(read_part, header, projection)
    start = sections.changes_end
    layout = message.read_layout(prefix[start:], message_bytes=header.size - start)
    _check_counts(layout, header, projection)
    source = source_of(layout, projection.null_types)
    buffers, runs = lay_out(source.buffers[projection.buffer_sources])
    body = _body(read_part, runs, source=source, body_start=start + layout.metadata_end)
    metadata = projection.templates[layout.compression].fill(
        header.record_count,
        nodes=source.nodes[projection.node_sources],
        buffers=buffers,
        body_length=sum(map(len, body)),
    )
    return _sealed(header, [prefix[sections.statistics_end : start], metadata, *body])


def _reader(read: Read, header: log_batch.BatchHeader) -> Callable[[int, int], memoryview]:
    whole = memoryview(read(0, header.size)) if header.size <= WHOLE_READ_BYTES_MAX else None

    def read_part(start: int, end: int) -> memoryview:
        part = memoryview(read(start, end)) if whole is None else whole[start:end]
        if len(part) != end - start:
            raise CorruptBatchError(f"A stored batch ends {end - start - len(part)} bytes early.")
        return part

    return read_part


def _read_prefix(
    read_part: Callable[[int, int], memoryview],
    header: log_batch.BatchHeader,
    projection: Projection,
) -> tuple[memoryview, log_batch.BatchSections]:
    pairs = projection.stored.node_count + projection.stored.buffer_count
    changes = 0 if header.is_append_only else header.record_count
    guess = log_batch.HEADER_BYTES + changes + _PAIR_BYTES * pairs + _METADATA_SLACK_BYTES
    prefix = read_part(0, min(guess, header.size))
    if header.is_joined:
        # The length of the parts comes after the statistics, however long those are.
        _, statistics_end = log_batch.read_statistics_section(prefix, header)
        prefix = _extended(read_part, prefix, statistics_end + message.PREFIX_BYTES, header.size)
    sections = log_batch.read_sections(prefix, header)
    prefix = _extended(read_part, prefix, sections.changes_end + message.PREFIX_BYTES, header.size)
    needed = sections.changes_end + message.metadata_bytes(prefix[sections.changes_end :])
    return _extended(read_part, prefix, needed, header.size), sections


def _extended(
    read_part: Callable[[int, int], memoryview], prefix: memoryview, end: int, size: int
) -> memoryview:
    end = min(end, size)
    if end <= len(prefix):
        return prefix
    return memoryview(b"".join((prefix, read_part(len(prefix), end))))


def _check_counts(
    layout: message.MessageLayout, header: log_batch.BatchHeader, projection: Projection
) -> None:
    found = message.Shape(len(layout.nodes), len(layout.buffers))
    if found != projection.stored or layout.row_count != header.record_count:
        raise CorruptBatchError(
            f"A stored batch of {header.record_count} records has {layout.row_count} rows in "
            f"{found}, but its schema {header.schema_id} requires {projection.stored}."
        )


def _body(
    read_part: Callable[[int, int], memoryview],
    runs: Sequence[tuple[int, int]],
    *,
    source: BodySource,
    body_start: int,
) -> list[Part]:
    parts: list[Part] = []
    nulls = memoryview(source.nulls)
    for start, end in runs:
        if start >= source.nulls_start:
            parts.append(nulls[start - source.nulls_start : end - source.nulls_start])
        else:
            parts.append(read_part(body_start + start, body_start + end))
        if padding := -(end - start) % message.ALIGNMENT:
            parts.append(bytes(padding))
    return parts


def _sealed(header: log_batch.BatchHeader, payload: list[Part]) -> list[Part]:
    head = log_batch.HEADER.pack(
        header.base_offset,
        log_batch.HEADER_BYTES - log_batch.LENGTH_END + sum(map(len, payload)),
        log_batch.MAGIC_PLAIN,
        header.commit_timestamp,
        0,
        header.schema_id,
        header.attributes,
        header.last_offset_delta,
        header.writer_id,
        header.sequence,
        header.record_count,
    )
    signed = head[log_batch.CRC_END :]
    crc = crc32c_of_parts([signed, *payload])
    return [head[: log_batch.CRC_START] + _CRC.pack(crc) + signed, *filter(len, payload)]
