"""One segment of a log, read from its first batch to its end or to the first bad one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.audit.files.stream import Stream
from headwater.audit.files.trail import Trail
from headwater.errors import CorruptBatchError
from headwater.log.mark import Mark
from headwater.rows.log_batch import HEADER_BYTES, BatchHeader, check_crc, read_header

Visit = Callable[[BatchHeader, memoryview], None]


@dataclass(frozen=True, slots=True)
class Walked:
    """Hold where the good part of a segment ends, and why, if that is before its end."""

    end: Mark
    rows: int
    batches: int
    bad: str = ""


def walk(
    stream: Stream, *, start: Mark, trails: Sequence[Trail] = (), visit: Visit | None = None
) -> Walked:
    """Check every batch: that it follows the one before, its checksum, and what marks say of it."""
    place, rows, batches = start, 0, 0
    while place.position < stream.size:
        try:
            header, batch = _checked(stream, place)
        except (CorruptBatchError, OSError) as fault:
            return Walked(place, rows, batches, str(fault))
        after = Mark(header.end_offset, place.position + header.size, header.commit_timestamp)
        misfits = [each for each in trails if not each.step(bytes(batch[:HEADER_BYTES]), after)]
        if misfits:
            # The header that was changed may be any of those behind the last place that fits.
            return Walked(misfits[0].known, rows, batches, misfits[0].misfit)
        if visit is not None:
            visit(header, batch)
        place, rows, batches = after, rows + header.record_count, batches + 1
    return Walked(place, rows, batches)


def _checked(stream: Stream, place: Mark) -> tuple[BatchHeader, memoryview]:
    """Return the batch at a place, or say what is wrong with it."""
    header = read_header(stream.read(place.position, HEADER_BYTES))
    if header.base_offset != place.offset:
        raise CorruptBatchError(
            f"A batch begins at offset {header.base_offset} instead of {place.offset}."
        )
    if header.commit_timestamp < place.timestamp_ms:
        raise CorruptBatchError(
            f"The commit time goes back from {place.timestamp_ms} to {header.commit_timestamp}."
        )
    batch = stream.read(place.position, header.size)
    if len(batch) < header.size:
        raise CorruptBatchError(f"A batch of {header.size} bytes ends after {len(batch)}.")
    check_crc(batch, header)
    return header, batch
