"""Where the buffers of a new message body come from, and where they go."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.rows.message import ALIGNMENT, MessageLayout, Pairs
from headwater.rows.shape import NullColumn, null_column

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
    nodes = [node for column in columns for node in column.nodes]
    ranges, nulls = _null_body(columns, compressed=layout.compression is not None)
    buffers = [(nulls_start + offset, length) for offset, length in ranges]
    return BodySource(
        nodes=np.concatenate((layout.nodes, np.array(nodes, np.int64))),
        buffers=np.concatenate((layout.buffers, np.array(buffers, np.int64))),
        nulls_start=nulls_start,
        nulls=nulls,
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
    buffers = np.zeros_like(picked)
    buffers[:, 1] = picked[:, 1]
    filled = picked[:, 1].nonzero()[0]
    if not filled.size:
        return buffers, []
    starts = picked[filled, 0]
    ends = starts + picked[filled, 1]
    gaps = starts[1:] - ends[:-1]
    breaks = ((gaps < 0) | (gaps >= _GAP_BYTES)).nonzero()[0]
    firsts = np.concatenate(([0], breaks + 1))
    run_starts = starts[firsts]
    run_ends = ends[np.append(breaks, -1)]
    padded = (run_ends - run_starts + (ALIGNMENT - 1)) & -ALIGNMENT
    targets = padded.cumsum() - padded
    shifts = np.repeat(targets - run_starts, np.diff(np.append(firsts, starts.size)))
    buffers[filled, 0] = starts + shifts
    return buffers, list(zip(run_starts.tolist(), run_ends.tolist(), strict=True))


def _padded(length: int) -> int:
    return (length + ALIGNMENT - 1) & -ALIGNMENT
