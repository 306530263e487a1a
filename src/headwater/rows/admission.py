"""What a client's batch must be before the server stores it."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import CorruptBatchError, RecordTooLargeError
from headwater.rows.log_batch import (
    BatchHeader,
    BatchSections,
    ChangeType,
    check_crc,
    read_sections,
)
from headwater.rows.message import MessageLayout, Pairs, read_layout
from headwater.rows.nullness import check_nulls, columns_to_check
from headwater.rows.shape import Shape, shape_of_all, struct_members
from headwater.rows.statistics import parse_statistics

_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
_LENGTH_BYTES = 8
_NOT_COMPRESSED = -1
_HINT = "The client that wrote the batch is at fault; send it again from a released client."


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Bound the size of one batch, as sent and once decompressed."""

    batch_bytes_max: int
    decoded_bytes_max: int


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """Hold a batch whose frame and layout are right, and whose values are still to be checked."""

    message: memoryview
    expected: "Expectation"
    is_compressed: bool
    decoded_bytes: int
    """What decoding its values takes: writers say so, and no decoder goes beyond it."""

    def check_values(self) -> None:
        """Decode the values and check them."""
        rows = _checked_rows(self.message, self.expected, is_compressed=self.is_compressed)
        check_nulls(rows, self.expected.checked_columns)


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """Hold what a schema asks of every batch; made once for many batches."""

    schema: pa.Schema
    schema_message: bytes
    shape: Shape
    struct_members: Pairs
    checked_columns: tuple[int, ...]

    @classmethod
    def of(cls, schema: pa.Schema) -> "Expectation":
        """Work out what a schema asks for."""
        return cls(
            schema=schema,
            schema_message=schema.serialize().to_pybytes(),
            shape=shape_of_all(schema.types),
            struct_members=np.array(struct_members(schema.types), np.int64).reshape(-1, 2),
            checked_columns=columns_to_check(schema),
        )


def inspect(
    batch: bytes | memoryview,
    header: BatchHeader,
    *,
    expected: Expectation,
    limits: AdmissionLimits,
    append_only: bool,
) -> Inspected:
    """Refuse a batch that readers could not decode; trust nothing before it is checked.

    1. Size, checksum and count. 2. Statistics and change types. 3. The layout of the message
    against the schema. 4. The size of its buffers once decompressed. What is left are its values:
    to check them takes as much time and memory as they say, not as much as was sent.
    """
    _check_frame(batch, header, limits=limits)
    sections = read_sections(batch, header)
    _check_statistics(
        memoryview(batch)[sections.statistics_start : sections.statistics_end],
        header,
        schema=expected.schema,
    )
    _check_changes(batch, header, sections=sections, append_only=append_only)
    message = memoryview(batch)[sections.changes_end : header.size]
    layout = read_layout(message, message_bytes=len(message))
    _check_layout(layout, header, expected=expected)
    decoded_bytes = _decoded_size(message, layout, decoded_bytes_max=limits.decoded_bytes_max)
    return Inspected(message, expected, layout.compression is not None, decoded_bytes)


def _check_frame(
    batch: bytes | memoryview, header: BatchHeader, *, limits: AdmissionLimits
) -> None:
    if header.size > limits.batch_bytes_max:
        raise RecordTooLargeError(
            f"A record batch has {header.size} bytes, at most {limits.batch_bytes_max} are taken.",
            hint="Send smaller batches: lower the batch size of the writer.",
        )
    if len(batch) < header.size:
        raise CorruptBatchError(f"A batch of {header.size} bytes ends after {len(batch)}.")
    check_crc(batch, header)
    if header.is_joined:
        raise CorruptBatchError("A record batch was sent that a server has joined.", hint=_HINT)
    if header.record_count < 1:
        raise CorruptBatchError("A record batch without records was sent.", hint=_HINT)


def _check_statistics(statistics: memoryview, header: BatchHeader, *, schema: pa.Schema) -> None:
    if not len(statistics):
        return
    columns = parse_statistics(statistics, schema.types)
    if any(column.null_count > header.record_count for column in columns.values()):
        raise CorruptBatchError("Statistics count more nulls than records.", hint=_HINT)


def _check_changes(
    batch: bytes | memoryview, header: BatchHeader, *, sections: BatchSections, append_only: bool
) -> None:
    if append_only and not header.is_append_only:
        raise CorruptBatchError(
            "A batch with change types was sent to a log table.",
            hint="A log table takes appended rows only.",
        )
    if header.is_append_only:
        return
    changes = np.frombuffer(batch, np.uint8)[sections.parts_end : sections.changes_end]
    if changes.size and changes.max() > max(ChangeType):
        raise CorruptBatchError(f"Change type {changes.max()} is unknown.", hint=_HINT)


def _check_layout(layout: MessageLayout, header: BatchHeader, *, expected: Expectation) -> None:
    shape = expected.shape
    if len(layout.nodes) != shape.node_count or len(layout.buffers) != shape.buffer_count:
        raise CorruptBatchError(
            f"A batch has {len(layout.nodes)} nodes and {len(layout.buffers)} buffers, its schema"
            f" {header.schema_id} asks for {shape.node_count} and {shape.buffer_count}.",
            hint="Refresh the table's schema and write with its columns.",
        )
    if layout.row_count != header.record_count:
        raise CorruptBatchError(
            f"A batch of {header.record_count} records holds {layout.row_count} rows.", hint=_HINT
        )
    if not len(expected.struct_members):
        return
    lengths = layout.nodes[:, 0]
    members, structs = expected.struct_members[:, 0], expected.struct_members[:, 1]
    # Arrow in C++ lets a field be longer than its struct; the reader of other clients gives up.
    if (lengths[members] != lengths[structs]).any():
        raise CorruptBatchError("A struct and its fields differ in length.", hint=_HINT)


def _decoded_size(message: memoryview, layout: MessageLayout, *, decoded_bytes_max: int) -> int:
    if layout.compression is None:
        decoded = layout.body_length
    else:
        # Summed as Python's numbers, which do not overflow.
        decoded = sum(_decoded_lengths(message, layout).tolist())
    if decoded > decoded_bytes_max:
        raise RecordTooLargeError(
            f"A batch takes more than {decoded_bytes_max} bytes once decompressed.",
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
    # Buffers start on a word, which the layout has made sure of.
    claimed = words[filled[:, 0] // _LENGTH_BYTES]
    if (claimed < _NOT_COMPRESSED).any():
        raise CorruptBatchError("A compressed buffer claims a negative length.", hint=_HINT)
    return np.where(claimed == _NOT_COMPRESSED, filled[:, 1] - _LENGTH_BYTES, claimed)


def _checked_rows(
    message: memoryview, expected: Expectation, *, is_compressed: bool
) -> pa.RecordBatch:
    try:
        if is_compressed:
            # Only a stream can be read without threads, which cost more than they give: batches
            # are admitted side by side already.
            stream = b"".join((expected.schema_message, message))
            rows = pa.ipc.open_stream(stream, options=_ONE_THREAD).read_next_batch()
        else:
            rows = pa.ipc.read_record_batch(pa.py_buffer(message), expected.schema)
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptBatchError(f"Arrow refuses a batch: {error}.", hint=_HINT) from None
    return rows
