"""The rows of one bucket: records in segments that only grow, read many at a time.

Where a row lies is one number: schema id, segment and offset. Values are framed for the wire
in place.
"""

import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import RecordTooLargeError
from headwater.rows.row_bytes import PADDING, RowBytes

# Where a row lies: schema id, segment and offset, packed into one number.

Locations = npt.NDArray[np.int64]

ABSENT = -1
OFFSET_BITS = 28
SEGMENT_BITS = 20
SEGMENT_BYTES_LIMIT = 1 << OFFSET_BITS
SEGMENT_COUNT_MAX = 1 << SEGMENT_BITS
_SCHEMA_SHIFT = OFFSET_BITS + SEGMENT_BITS


def base_location(schema_id: int, segment: int) -> int:
    """Return the location of offset 0; adding an offset gives any other."""
    assert 0 <= schema_id < 1 << 15
    assert 0 <= segment < SEGMENT_COUNT_MAX
    return schema_id << _SCHEMA_SHIFT | segment << OFFSET_BITS


def offset_of(locations: Locations) -> Locations:
    """Take the offsets within segments out of locations."""
    return locations & (SEGMENT_BYTES_LIMIT - 1)


def segment_of(locations: Locations) -> Locations:
    """Take the numbers of the segments out of locations."""
    return locations >> OFFSET_BITS & (SEGMENT_COUNT_MAX - 1)


def schema_of(locations: Locations) -> Locations:
    """Return the ids of the schemas that the rows were written under."""
    return locations >> _SCHEMA_SHIFT


def unpacked(location: int) -> tuple[int, int, int]:
    """Return schema id, segment and offset of one location."""
    return (
        location >> _SCHEMA_SHIFT,
        location >> OFFSET_BITS & (SEGMENT_COUNT_MAX - 1),
        location & (SEGMENT_BYTES_LIMIT - 1),
    )


# The rows of one bucket: records in segments that only grow, read many at a time.
#
# A record is `i32 length | uvarint key length | key | row`, as a client sends it. New records go
# to a segment in memory; a full one is sealed and later written to a file that is mapped, so that
# rows may take more room than there is memory. Bytes that were written never change: whoever
# holds the buffers of a moment can go on reading what was there then.

LEAD = 32  # free bytes before the first record, so that reading may begin before it
LENGTH_BYTES = 4
READ_BYTES_MAX = 1 << 30
APPEND_BYTES_MAX = SEGMENT_BYTES_LIMIT - LEAD - PADDING
_SEVEN_BITS = 0x7F
_HEAD_BYTES = 16  # the length and the start of the key; above 12, or a view would have to hold it
_LENGTH = struct.Struct("<i")
_NOTHING = pa.py_buffer(b"")
_ZEROS = pa.py_buffer(bytes(PADDING))

Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class HeapSegment:
    """Hold records behind each other; the bytes before `end` never change."""

    data: Bytes
    end: int = LEAD
    live_bytes: int = 0
    oldest_ms: int = 0
    newest_ms: int = 0
    # The number of its file, once it has one.
    serial: int | None = None
    crc: int = 0
    buffer: pa.Buffer = field(init=False)
    view: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.use(self.data)

    def use(self, data: Bytes) -> None:
        """Read from other memory that holds the same bytes."""
        self.data = data
        self.buffer = pa.py_buffer(data)
        self.view = data.data


@dataclass(frozen=True, slots=True)
class Records:
    """Hold records that were read, in private memory with LEAD bytes before each."""

    keys: RowBytes
    rows: RowBytes
    lengths: npt.NDArray[np.int64]
    schema_ids: npt.NDArray[np.int64]


@dataclass(slots=True)
class Heap:
    """Keep the segments of one bucket by number."""

    segment_bytes_max: int
    segments: dict[int, HeapSegment] = field(default_factory=dict)
    active: int = -1
    _buffers: list[pa.Buffer] = field(default_factory=list)

    @property
    def live_bytes(self) -> int:
        """Bytes of the records that an index still refers to."""
        return sum(segment.live_bytes for segment in self.segments.values())

    @property
    def size_bytes(self) -> int:
        """Bytes of all records, dead ones included."""
        return sum(segment.end - LEAD for segment in self.segments.values())

    @property
    def unwritten_count(self) -> int:
        """Return how many full segments are still in memory only."""
        return sum(
            segment.serial is None and number != self.active
            for number, segment in self.segments.items()
        )

    def append(self, records: Bytes, *, schema_id: int, timestamp_ms: int = 0) -> int:
        """Write records behind each other and return the location of the first."""
        assert len(records) <= APPEND_BYTES_MAX
        if self.active < 0 or not self._fits(self.segments[self.active], len(records)):
            self.active = self.add(self._fresh(len(records), timestamp_ms))
        segment = self.segments[self.active]
        segment.newest_ms = max(segment.newest_ms, timestamp_ms)
        start = segment.end
        segment.data[start : start + len(records)] = records
        segment.end += len(records)
        return base_location(schema_id, self.active) + start

    def seal(self) -> None:
        """Let the next record begin a new segment."""
        self.active = -1

    def add(self, segment: HeapSegment) -> int:
        """Take a segment under the first free number."""
        number = next(
            (free for free, buffer in enumerate(self._buffers) if buffer is _NOTHING),
            len(self._buffers),
        )
        self.put(number, segment)
        return number

    def put(self, number: int, segment: HeapSegment) -> None:
        """Take a segment under its number."""
        assert number < SEGMENT_COUNT_MAX
        self._buffers += [_NOTHING] * (number + 1 - len(self._buffers))
        self.segments[number] = segment
        self._buffers[number] = segment.buffer

    def remap(self, number: int, data: Bytes) -> None:
        """Read a segment from other memory that holds the same bytes."""
        self.segments[number].use(data)
        self._buffers[number] = self.segments[number].buffer

    def remove(self, number: int) -> None:
        """Forget a segment."""
        del self.segments[number]
        self._buffers[number] = _NOTHING

    def frozen(self) -> "HeapView":
        """Return a view that goes on showing what is there now."""
        return HeapView(tuple(self._buffers))

    def view(self) -> "HeapView":
        """Return a view for use at once."""
        return HeapView(self._buffers)

    def account(self, locations: Locations, sizes: npt.NDArray[np.int64], *, sign: int) -> None:
        """Count the bytes of records as live (1) or dead (-1)."""
        weights = np.bincount(segment_of(locations), weights=sizes)
        for number in np.flatnonzero(weights):
            self.segments[int(number)].live_bytes += sign * int(weights[number])

    def read_one(self, location: int) -> tuple[bytes, bytes]:
        """Return key and value (schema id and row) of one record without the cost of arrays."""
        schema_id, number, offset = unpacked(location)
        view = self.segments[number].view
        end = offset + LENGTH_BYTES + _LENGTH.unpack_from(view, offset)[0]
        position = offset + LENGTH_BYTES
        key_length, shift = view[position] & 0x7F, 7
        while view[position] & 0x80:
            position += 1
            key_length |= (view[position] & 0x7F) << shift
            shift += 7
        row = position + 1 + key_length
        return bytes(view[position + 1 : row]), schema_id.to_bytes(2, "little") + view[row:end]

    def takes(self, size: int) -> bool:
        """Tell whether the active segment has room for so many bytes."""
        return self.active >= 0 and self._fits(self.segments[self.active], size)

    def record_bytes(self, location: int) -> int:
        """Measure the record at a location, with its length in front."""
        _, number, offset = unpacked(location)
        return LENGTH_BYTES + int(_LENGTH.unpack_from(self.segments[number].view, offset)[0])

    def account_one(self, location: int, size: int) -> None:
        """Count the bytes of one record as live, or as dead if the size is negative."""
        self.segments[location >> OFFSET_BITS & (SEGMENT_COUNT_MAX - 1)].live_bytes += size

    def _fits(self, segment: HeapSegment, size: int) -> bool:
        return segment.end + size + PADDING <= len(segment.data)

    def _fresh(self, size: int, timestamp_ms: int) -> HeapSegment:
        """Make a segment of full size: memory that is not written yet costs nothing."""
        room = max(self.segment_bytes_max, LEAD + size + PADDING)
        return HeapSegment(np.empty(room, np.uint8), oldest_ms=timestamp_ms)


@dataclass(frozen=True, slots=True)
class HeapView:
    """Read records by their locations out of the buffers of a moment."""

    buffers: "list[pa.Buffer] | tuple[pa.Buffer, ...]"

    def lengths(self, locations: Locations) -> npt.NDArray[np.int64]:
        """Return the lengths of records, without the four bytes that say so."""
        return self._heads(locations)[:, 0].astype(np.int64)

    def copy(self, locations: Locations) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """Copy whole records behind each other and return where each starts, and the end."""
        sizes = self.lengths(locations) + LENGTH_BYTES
        data, starts = self._copy(locations, back=0, sizes=np.maximum(sizes, _HEAD_BYTES))
        if (sizes >= _HEAD_BYTES).all():
            return data[:-PADDING], np.append(starts, int(sizes.sum()))
        # Short records were read with bytes of their neighbours behind them.
        packed = RowBytes(data, starts, starts + sizes).to_arrow()
        offsets = np.frombuffer(packed.buffers()[1], np.int32, len(sizes) + 1).astype(np.int64)
        return np.frombuffer(packed.buffers()[2], np.uint8)[: offsets[-1]], offsets

    def read(self, locations: Locations, *, bytes_max: int = READ_BYTES_MAX) -> Records:
        """Copy records out, unless they are too large."""
        heads = self._heads(locations)
        lengths = heads[:, 0].astype(np.int64)
        sizes = LEAD + LENGTH_BYTES + lengths
        if int(sizes.sum()) > bytes_max + (LEAD + LENGTH_BYTES) * len(locations):
            raise RecordTooLargeError(
                f"The rows of {len(locations)} keys take more than {bytes_max} bytes.",
                hint="Write or read fewer keys at a time.",
            )
        data, starts = self._copy(locations, back=LEAD, sizes=sizes)
        key_lengths, key_starts = _key_lengths(heads.view(np.uint8), starts + LEAD + LENGTH_BYTES)
        keys = RowBytes(data, key_starts, key_starts + key_lengths)
        rows = RowBytes(data, keys.ends, starts + sizes)
        return Records(keys, rows, lengths, schema_of(locations))

    def _heads(self, locations: Locations) -> npt.NDArray[np.int32]:
        count = len(locations)
        data, _ = self._copy(locations, back=0, sizes=np.full(count, _HEAD_BYTES, np.int64))
        return data[: count * _HEAD_BYTES].view(np.int32).reshape(count, _HEAD_BYTES // 4)

    def _copy(
        self, locations: Locations, *, back: int, sizes: npt.NDArray[np.int64]
    ) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """Copy bytes from `back` before each location; Arrow gathers scattered bytes best."""
        count = len(locations)
        views = np.zeros((count + 1, 4), np.int32)
        views[:count, 0] = sizes
        views[:count, 2] = segment_of(locations)
        views[:count, 3] = offset_of(locations) - back
        # One view more puts padding behind the rest.
        views[count] = (PADDING, 0, len(self.buffers), 0)
        parts = [None, pa.py_buffer(views), *self.buffers, _ZEROS]
        gathered = pa.Array.from_buffers(pa.binary_view(), count + 1, parts, null_count=0)
        _, offsets, data = gathered.cast(pa.binary()).buffers()
        starts = np.frombuffer(offsets, np.int32, count).astype(np.int64)
        return np.frombuffer(data, np.uint8, int(sizes.sum()) + PADDING), starts


def _key_lengths(
    heads: Bytes, positions: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the lengths of keys and where they start, given the first bytes of records."""
    lengths = (heads[:, LENGTH_BYTES] & 0x7F).astype(np.int64)
    starts = positions + 1
    more = np.flatnonzero(heads[:, LENGTH_BYTES] & 0x80)
    at = LENGTH_BYTES
    while len(more):
        at += 1
        lengths[more] |= (heads[more, at] & 0x7F).astype(np.int64) << 7 * (at - LENGTH_BYTES)
        starts[more] += 1
        more = more[heads[more, at] > _SEVEN_BITS]
    return lengths, starts


# Values as clients read them: the schema id and the row, framed for the wire in place.

SCHEMA_ID_BYTES = 2
_LENGTH_BYTES = 4


def values_of(records: Records) -> RowBytes:
    """Return the values of records that were read; the bytes before them are free."""
    rows = records.rows
    data = rows.data
    data[rows.starts - 2] = records.schema_ids & 0xFF
    data[rows.starts - 1] = records.schema_ids >> 8
    return RowBytes(data, rows.starts - SCHEMA_ID_BYTES, rows.ends)


def with_lengths(values: RowBytes) -> RowBytes:
    """Put the length of each value, four bytes, before it."""
    starts, lengths = values.starts - _LENGTH_BYTES, values.lengths
    for byte in range(_LENGTH_BYTES):
        values.data[starts + byte] = lengths >> 8 * byte & 0xFF
    return RowBytes(values.data, starts, values.ends)


def framed(values: RowBytes, *, outer_tag: int, inner_tag: int) -> RowBytes:
    """Put before each value what makes it a field of a message that is itself a field.

    That is `outer tag | length | inner tag | length | value`, with lengths as varints.
    """
    inner = _with_head(values, inner_tag)
    return _with_head(inner, outer_tag)


def _with_head(values: RowBytes, tag: int) -> RowBytes:
    lengths = values.lengths
    sizes = _varint_sizes(lengths)
    starts = values.starts - sizes - 1
    values.data[starts] = tag
    for byte in range(int(sizes.max(initial=0))):
        rows = slice(None) if byte == 0 else np.flatnonzero(sizes > byte)
        more = np.where(sizes[rows] > byte + 1, 0x80, 0)
        values.data[starts[rows] + 1 + byte] = lengths[rows] >> 7 * byte & 0x7F | more
    return RowBytes(values.data, starts, values.ends)


def _varint_sizes(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    sizes = np.ones(len(numbers), np.int64)
    for bits in (7, 14, 21, 28):
        sizes += numbers >= 1 << bits
    return sizes
