"""CRC-32C, the checksum of record batches and of our own files."""

from collections.abc import Iterable

import google_crc32c


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of contiguous, read-only bytes."""
    return int(google_crc32c.value(data))


def crc32c_of_parts(parts: Iterable[bytes | memoryview]) -> int:
    """Return the CRC-32C of the parts as if they were joined."""
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, part)
    return int(crc)
