"""Where the buffers of a new message body come from, and where they go."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidProjectionError
from headwater.rows.message import ALIGNMENT, MessageLayout, Pairs
from headwater.rows.shape import NullColumn, null_column

# A reader gets so much in place of columns that a batch lacks; one that asks for all gets none.
NULLS_BYTES_MAX = 64 * 1024 * 1024
# Writers pad buffers to at most 64 bytes: a smaller gap is copied along instead of split at.
_GAP_BYTES = 64
_NOT_COMPRESSED = struct.Struct("<q").pack(-1)


@dataclass(frozen=True, slots=True, eq=False)
class BodySource:
    """Hold where bytes come from: the stored body, and behind it zeros for null columns."""

    nodes: Pairs
    buffers: Pairs
    nulls_start: int
    nulls: bytes


def source_of(layout: MessageLayout, null_types: Sequence[pa.DataType]) -> BodySource:
    """Return the stored body, with nulls of the given types behind it."""
    nulls_start = _padded(layout.body_length) + _GAP_BYTES
    if not null_types:
        return BodySource(layout.nodes, layout.buffers, nulls_start, b"")
    columns = [null_column(data_type, layout.row_count) for data_type in null_types]
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


def _check_size(columns: Sequence[NullColumn], row_count: int) -> None:
    """Refuse to make much out of little: a batch of many rows may take few bytes itself."""
    size = sum(length for column in columns for length in column.buffer_lengths)
    if size > NULLS_BYTES_MAX:
        raise InvalidProjectionError(
            f"A batch of {row_count} rows lacks {len(columns)} columns; nulls in their place take"
            f" {size} bytes, at most {NULLS_BYTES_MAX} are sent.",
            hint="Read fewer columns at a time, or the batches as they are.",
        )


def _null_body(
    columns: Sequence[NullColumn], *, compressed: bool
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


def lay_out(picked: Pairs) -> tuple[Pairs, list[tuple[int, int]]]:
    """Return where the buffers go, and the source runs that make up the new body."""
    # A plain loop: a projection has few buffers, where numpy would cost ten times as much.
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
    return (length + ALIGNMENT - 1) & -ALIGNMENT
