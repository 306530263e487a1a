"""Plan an append: where each batch goes and what is written, as values."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import CorruptBatchError
from headwater.log.mark import Mark, extend_chain
from headwater.rows.log_batch import (
    CRC_END,
    CRC_START,
    BatchHeader,
    check_crc,
    read_header,
    stamped,
)
from headwater.store.disk import Part


@dataclass(frozen=True, slots=True)
class Planned:
    """Hold the bytes of an append, the marks in it and the tail behind it."""

    parts: list[Part]
    marks: list[Mark]
    tail: Mark


def checked_header(batch: Part) -> BatchHeader:
    """Read the header of exactly one whole batch: what recovery would refuse is not written."""
    header = read_header(batch)
    if len(batch) != header.size:
        raise CorruptBatchError(f"A batch of {header.size} bytes came with {len(batch)}.")
    check_crc(batch, header)
    return header


def plan_append(
    batches: Sequence[tuple[Part, BatchHeader]],
    *,
    last: Mark,
    tail: Mark,
    timestamp_ms: int,
    interval_bytes: int,
) -> Planned:
    """Stamp batches so that they follow the tail; timestamps never go back."""
    timestamp_ms = max(timestamp_ms, tail.timestamp_ms)
    parts: list[Part] = []
    marks: list[Mark] = []
    for batch, header in batches:
        if tail.position - last.position >= interval_bytes:
            marks.append(tail)
            last = tail
        chain = 0 if tail.position == last.position else tail.chain
        head, rest = stamped(batch, base_offset=tail.offset, timestamp_ms=timestamp_ms)
        tail = Mark(
            tail.offset + header.last_offset_delta + 1,
            tail.position + header.size,
            timestamp_ms,
            extend_chain(chain, bytes(head) + bytes(rest[: CRC_END - CRC_START])),
        )
        parts += (head, rest)
    return Planned(parts, marks, tail)
