"""The envelope of our own small files: a magic word, a body, a checksum."""

import struct

from headwater.errors import CorruptFileError
from headwater.rows.checksum import crc32c

_CHECKSUM = struct.Struct("<I")


def enclose(magic: bytes, body: bytes) -> bytes:
    """Return the file around a body."""
    content = magic + body
    return content + _CHECKSUM.pack(crc32c(content))


def disclose(magic: bytes, content: bytes) -> bytes:
    """Return the body of a file whose magic word and checksum fit."""
    if len(content) < len(magic) + _CHECKSUM.size or not content.startswith(magic):
        raise CorruptFileError(f"A file does not start with {magic!r}.")
    (expected,) = _CHECKSUM.unpack(content[-_CHECKSUM.size :])
    if crc32c(content[: -_CHECKSUM.size]) != expected:
        raise CorruptFileError(f"The checksum of a {magic!r} file does not fit.")
    return content[len(magic) : -_CHECKSUM.size]
