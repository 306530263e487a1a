"""Checks of rows and batches before they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import CorruptBatchError, InvalidValueError, RecordTooLargeError
from headwater.rows import log_batch
from headwater.rows.compute import pc
from headwater.rows.message import (
    LayoutReader,
    MessageLayout,
    Pairs,
    Shape,
    shape_of_all,
    struct_members,
)
from headwater.rows.statistics import parse_statistics


def columns_to_check(schema: pa.Schema) -> tuple[int, ...]:
    """Return the positions of columns that are NOT NULL or contain such a field."""
    return tuple(
        index
        for index, field in enumerate(schema)
        if not field.nullable or pa.types.is_nested(field.type)
    )


def check_nulls(rows: pa.RecordBatch, positions: Sequence[int]) -> None:
    """Reject nulls in NOT NULL columns, looking at the columns at these positions."""
    for position in positions:
        field = rows.schema.field(position)
        _check(field, rows.column(position), path=field.name)


def _check(field: pa.Field, array: pa.Array, *, path: str) -> None:
    if not field.nullable and array.null_count:
        raise InvalidValueError(
            f"Column '{path}' contains {array.null_count} nulls, but it is declared NOT NULL.",
            hint="Set the column in every row, or make it nullable.",
        )
    if pa.types.is_struct(field.type):
        for index, child in enumerate(field.type):
            # A null row masks the values of its fields.
            _check(child, _shown(array, index), path=f"{path}.{child.name}")
    elif pa.types.is_map(field.type):
        _check(field.type.key_field, array.keys, path=f"{path}.key")
        _check(field.type.item_field, array.items, path=f"{path}.value")
    elif pa.types.is_list(field.type):
        _check(field.type.value_field, array.values, path=f"{path}.item")


def _shown(array: pa.StructArray, index: int) -> pa.Array:
    child = array.field(index)
    return child if not array.null_count else child.filter(pc.is_valid(array))


# Batches of clients, checked before the server stores them.

_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
_LENGTH_BYTES = 8
_NOT_COMPRESSED = -1
_HINT = "The client that wrote the batch is faulty; use a released client."


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Limits on the size of one batch, as sent and after decompression."""

    batch_bytes_max: int
    decoded_bytes_max: int


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """A batch whose frame and layout are valid, and whose values are still to be checked."""

    message: memoryview
    expected: "Expectation"
    is_compressed: bool
    decoded_bytes: int
    """Memory needed to decode the values; writers declare it, and no decoder exceeds it."""

    def check_values(self) -> None:
        """Decode the values and check them."""
        rows = _checked_rows(self.message, self.expected, is_compressed=self.is_compressed)
        check_nulls(rows, self.expected.checked_columns)


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """What a schema requires of every batch; made once for many batches."""

    schema: pa.Schema
    schema_message: bytes
    shape: Shape
    struct_members: Pairs
    checked_columns: tuple[int, ...]
    layouts: LayoutReader

    @classmethod
    def of(cls, schema: pa.Schema) -> "Expectation":
        """Work out what a schema requires."""
        return cls(
            schema=schema,
            schema_message=schema.serialize().to_pybytes(),
            shape=shape_of_all(schema.types),
            struct_members=np.array(struct_members(schema.types), np.int64).reshape(-1, 2),
            checked_columns=columns_to_check(schema),
            layouts=LayoutReader(schema),
        )


def inspect(
    batch: bytes | memoryview,
    header: log_batch.BatchHeader,
    *,
    expected: Expectation,
    limits: AdmissionLimits,
    append_only: bool,
) -> Inspected:
    """Reject a batch that readers could not decode; trust nothing before it is checked.

    1. Size, checksum and count. 2. Statistics and change types. 3. The layout of the message
    against the schema. 4. The size of its buffers after decompression. The values are left:
    checking them takes as much time and memory as they declare, not as much as was sent.
    """
    size = header.size
    _check_frame(batch, header, size=size, limits=limits)
    start = log_batch.HEADER_BYTES
    if header.magic != log_batch.MAGIC_PLAIN or not header.attributes & log_batch.APPEND_ONLY:
        # Most batches have none of these.
        sections = log_batch.read_sections(batch, header)
        _check_statistics(
            memoryview(batch)[sections.statistics_start : sections.statistics_end],
            header,
            schema=expected.schema,
        )
        _check_changes(batch, header, sections=sections, append_only=append_only)
        start = sections.changes_end
    message = memoryview(batch)[start:size]
    layout = expected.layouts.read(message)
    _check_layout(layout, header, expected=expected)
    decoded_bytes = _decoded_size(message, layout, decoded_bytes_max=limits.decoded_bytes_max)
    return Inspected(message, expected, layout.compression is not None, decoded_bytes)


def _check_frame(
    batch: bytes | memoryview, header: log_batch.BatchHeader, *, size: int, limits: AdmissionLimits
) -> None:
    if size > limits.batch_bytes_max:
        raise RecordTooLargeError(
            f"A record batch has {size} bytes, more than the limit of {limits.batch_bytes_max}.",
            hint="Send smaller batches: lower the batch size of the writer.",
        )
    if len(batch) < size:
        raise CorruptBatchError(f"A batch of {size} bytes ends after {len(batch)}.")
    log_batch.check_crc(batch, header)
    if header.attributes & log_batch.JOINED:
        raise CorruptBatchError(
            "A client sent a record batch that is marked as joined by a server.", hint=_HINT
        )
    if header.is_sparse:
        raise CorruptBatchError(
            "A client sent a record batch that is marked as cut by a server.", hint=_HINT
        )
    if header.record_count < 1:
        raise CorruptBatchError("A client sent a record batch without records.", hint=_HINT)


def _check_statistics(
    statistics: memoryview, header: log_batch.BatchHeader, *, schema: pa.Schema
) -> None:
    if not len(statistics):
        return
    columns = parse_statistics(statistics, schema.types)
    if any(column.null_count > header.record_count for column in columns.values()):
        raise CorruptBatchError("The statistics count more nulls than records.", hint=_HINT)


def _check_changes(
    batch: bytes | memoryview,
    header: log_batch.BatchHeader,
    *,
    sections: log_batch.BatchSections,
    append_only: bool,
) -> None:
    if append_only and not header.is_append_only:
        raise CorruptBatchError(
            "A client sent a batch with change types to a log table.",
            hint="A log table only accepts appended rows.",
        )
    if header.is_append_only:
        return
    changes = np.frombuffer(batch, np.uint8)[sections.changes_start : sections.changes_end]
    if changes.size and changes.max() > max(log_batch.ChangeType):
        raise CorruptBatchError(f"Change type {changes.max()} is unknown.", hint=_HINT)


def _check_layout(
    layout: MessageLayout, header: log_batch.BatchHeader, *, expected: Expectation
) -> None:
    shape = expected.shape
    if len(layout.nodes) != shape.node_count or len(layout.buffers) != shape.buffer_count:
        raise CorruptBatchError(
            f"A batch has {len(layout.nodes)} nodes and {len(layout.buffers)} buffers, but its "
            f"schema {header.schema_id} requires {shape.node_count} and {shape.buffer_count}.",
            hint="Refresh the table's schema and write with its columns.",
        )
    if layout.row_count != header.record_count:
        raise CorruptBatchError(
            f"A batch of {header.record_count} records has {layout.row_count} rows.", hint=_HINT
        )
    if not len(expected.struct_members):
        return
    lengths = layout.nodes[:, 0]
    members, structs = expected.struct_members[:, 0], expected.struct_members[:, 1]
    # Arrow in C++ lets a field be longer than its struct; the readers of other clients fail.
    if (lengths[members] != lengths[structs]).any():
        raise CorruptBatchError("A struct and its fields differ in length.", hint=_HINT)


def _decoded_size(message: memoryview, layout: MessageLayout, *, decoded_bytes_max: int) -> int:
    if layout.compression is None:
        decoded = layout.body_length
    else:
        # Summed as Python integers, which do not overflow.
        decoded = sum(_decoded_lengths(message, layout).tolist())
    if decoded > decoded_bytes_max:
        raise RecordTooLargeError(
            f"A batch takes more than {decoded_bytes_max} bytes after decompression.",
            hint="Send smaller batches: lower the batch size of the writer.",
        )
    return decoded


def _decoded_lengths(message: memoryview, layout: MessageLayout) -> np.ndarray:
    filled = layout.buffers[layout.buffers[:, 1] > 0]
    if (filled[:, 1] < _LENGTH_BYTES).any():
        raise CorruptBatchError("A compressed buffer is too short for its length.", hint=_HINT)
    words = np.frombuffer(
        message, "<i8", count=layout.body_length // _LENGTH_BYTES, offset=layout.metadata_end
    )
    # Buffers are aligned to words, which the layout check has ensured.
    claimed = words[filled[:, 0] // _LENGTH_BYTES]
    if (claimed < _NOT_COMPRESSED).any():
        raise CorruptBatchError("A compressed buffer claims a negative length.", hint=_HINT)
    return np.where(claimed == _NOT_COMPRESSED, filled[:, 1] - _LENGTH_BYTES, claimed)


def _checked_rows(
    message: memoryview, expected: Expectation, *, is_compressed: bool
) -> pa.RecordBatch:
    try:
        if is_compressed:
            # Only a stream can be read without threads, which cost more than they give: batches are
            # already admitted concurrently.
            stream = b"".join((expected.schema_message, message))
            rows = pa.ipc.open_stream(stream, options=_ONE_THREAD).read_next_batch()
        else:
            rows = pa.ipc.read_record_batch(pa.py_buffer(message), expected.schema)
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptBatchError(f"Arrow rejects a batch: {error}.", hint=_HINT) from None
    return rows
