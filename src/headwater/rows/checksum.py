"""CRC-32C, the checksum of record batches and of our own files."""

from collections.abc import Iterable

import google_crc32c
import pyarrow as pa


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of contiguous bytes."""
    return int(google_crc32c.value(_readable(data)))


def crc32c_of_parts(parts: Iterable[bytes | memoryview]) -> int:
    """Return the CRC-32C of the parts as if they were joined."""
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, _readable(part))
    return int(crc)


def _readable(data: bytes | memoryview) -> bytes | pa.Buffer:
    # google_crc32c takes no memoryview; an Arrow buffer shares its bytes without a copy.
    return data if isinstance(data, bytes) else pa.py_buffer(data)
