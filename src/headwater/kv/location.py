"""Where a row lies: schema id, segment and offset, packed into one number."""

import numpy as np
import numpy.typing as npt

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
    """Return the offsets within segments."""
    return locations & (SEGMENT_BYTES_LIMIT - 1)


def segment_of(locations: Locations) -> Locations:
    """Return the numbers of the segments."""
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
