"""Which offset of a log is asked for."""

from enum import IntEnum


class OffsetType(IntEnum):
    """Name the offsets that can be asked for, numbered as on the wire."""

    EARLIEST = 0
    LATEST = 1
    TIMESTAMP = 2
